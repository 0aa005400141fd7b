"""The samples of README.md and docs: fenced blocks, the commands in them, and what is said of each.

A block that is not run says so behind its language, with the reason: ```sh no-run: needs a GPU.
"""

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

__all__ = ["ROOT", "Block", "blocks", "commands", "indented_commands", "pages"]

ROOT = Path(__file__).parents[2]
FENCE = re.compile(r"^```(?P<language>\w*) *(?P<note>.*)$")
NOT_RUN = re.compile(r"no-run: \S.*")
PROGRAM = re.compile(r"^    (sandbox-|\.venv/bin/|make |curl |pip |uv |ray |docker |export )")


@dataclass(frozen=True)
class Block:
    """One fenced sample."""

    page: str
    line: int
    language: str
    note: str
    text: str

    @property
    def marked(self) -> bool:
        """Whether it says why it is not run."""
        return NOT_RUN.fullmatch(self.note) is not None

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def pages() -> list[Path]:
    return [
        ROOT / "README.md",
        *sorted((ROOT / "docs").rglob("*.md")),
        ROOT / "deploy" / "runs" / "README.md",
        *sorted((ROOT / "examples").rglob("*.md")),
    ]


def blocks() -> list[Block]:
    """All of them, page by page."""
    return [block for page in pages() for block in _of_page(page)]


def _of_page(page: Path) -> list[Block]:
    found: list[Block] = []
    lines: list[str] = []
    opened: tuple[int, re.Match[str]] | None = None
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        fence = FENCE.match(line)
        if opened is None:
            if fence:
                opened, lines = (number, fence), []
        elif line.rstrip() == "```":
            start, first = opened
            name = page.relative_to(ROOT).as_posix()
            found.append(Block(name, start, first["language"], first["note"], "\n".join(lines) + "\n"))
            opened = None
        else:
            lines.append(line)
    assert opened is None, f"{page}: a block is not closed"
    return found


def commands(block: Block) -> list[list[str]]:
    """The words of each command of a shell block, comments left out."""
    logical = re.sub(r"\\\n\s*", " ", block.text).splitlines()
    return [words for words in (shlex.split(line, comments=True) for line in logical) if words]


def indented_commands() -> list[str]:
    """Commands in indented blocks, which are not collected."""
    return [
        f"{page.relative_to(ROOT)}:{number}: {line.strip()}"
        for page in pages()
        for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1)
        if PROGRAM.match(line)
    ]
