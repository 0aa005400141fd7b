"""Writes small source trees for the measurements."""

from pathlib import Path
from textwrap import dedent

PROJECT = """
[tool.setuptools.packages.find]
include = ["shop*", "bank*"]
"""


def write_tree(root: Path, files: dict[str, str], project: str = PROJECT) -> Path:
    for name, text in {"pyproject.toml": project, **files}.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(dedent(text).lstrip("\n"), encoding="utf-8")
    return root
