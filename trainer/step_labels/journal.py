"""The labels that an interrupted labelling goes on with: a line for each episode that is done."""

from __future__ import annotations

import hashlib
import uuid
from collections import defaultdict, deque
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import TypeAdapter, ValidationError
from pydantic_core import to_json

from trainer.errors import ConfigError, DataError
from trainer.recorded.episode_rows import episode_row

from .labels import StepLabels

if TYPE_CHECKING:
    from trainer.recorded.types import RecordedEpisode


_LINES = TypeAdapter(tuple[str, StepLabels])
"""An episode's digest, and its labels."""
_SETTINGS: TypeAdapter[dict[str, object]] = TypeAdapter(dict[str, object])
LABELLING = "labelling"
"""Name of the labelling's id among the settings."""


def labelling_of(output: Path, *, resume: bool) -> str | None:
    """Return the id of the labelling of a file: a new one, or that of the journal to resume.

    None for a journal without one, such as those of earlier releases, and for an invalid one.
    """
    file = _journal_of(output)
    if not resume or not file.exists():
        return uuid.uuid4().hex
    with file.open("rb") as lines:
        try:
            known = _SETTINGS.validate_json(lines.readline()).get(LABELLING)
        except ValidationError:
            return None
    return str(known) if known is not None else None


class LabelJournal:
    """The journal of a file, in ``FILE.journal``; its first line has the settings that labels depend on."""

    def __init__(self, output: Path, settings: Mapping[str, object], *, resume: bool) -> None:
        """Raises ConfigError for a journal of another labelling, DataError for an invalid one."""
        self._file = _journal_of(output)
        self._known: defaultdict[str, deque[StepLabels]] = defaultdict(deque)
        lines = self._whole_lines()
        if lines and not resume:
            raise ConfigError(
                f"{self._file} is left of an earlier labelling; go on with it by --resume, or remove it"
            )
        if resume and not lines:
            raise ConfigError(f"there is nothing to resume: {self._file} does not exist or is empty")
        if resume:
            self._read(lines, settings)
        else:
            output.parent.mkdir(parents=True, exist_ok=True)
            self._file.write_bytes(to_json(settings) + b"\n")

    def take_labels(self, episode: RecordedEpisode) -> StepLabels | None:
        """Return the labels of an episode that is done, and of equal ones those of another each time."""
        found = self._known[_digest(episode)]
        return found.popleft() if found else None

    def add(self, episode: RecordedEpisode, found: StepLabels) -> None:
        """Add an episode that is done."""
        with self._file.open("ab") as file:
            file.write(to_json((_digest(episode), found)) + b"\n")

    def remove(self) -> None:
        """Remove the journal: the file is complete."""
        self._file.unlink()

    def _whole_lines(self) -> list[bytes]:
        """Return the lines of the file, if there is one; a torn last line is cut off."""
        if not self._file.exists():
            return []
        body = self._file.read_bytes()
        whole = body[: body.rfind(b"\n") + 1]
        if len(whole) < len(body):
            self._file.write_bytes(whole)
        return whole.splitlines()

    def _read(self, lines: list[bytes], settings: Mapping[str, object]) -> None:
        try:
            before, given = (_SETTINGS.validate_json(each) for each in (lines[0], to_json(settings)))
            done = [_LINES.validate_json(line) for line in lines[1:]]
        except ValidationError as error:
            raise DataError(
                f"{self._file} has a line that is no labelled episode; remove the file"
            ) from error
        names = before.keys() | given.keys()
        if changed := sorted(name for name in names if before.get(name) != given.get(name)):
            raise ConfigError(
                f"{self._file} was labelled with other settings: {', '.join(changed)}. Restore them, or "
                "remove the file"
            )
        for episode, found in done:
            self._known[episode].append(found)


def _journal_of(output: Path) -> Path:
    return output.with_name(f"{output.name}.journal")


def _digest(episode: RecordedEpisode) -> str:
    """Return a digest of all that labels may depend on: the episode's row without labels of its steps."""
    row = episode_row(episode)
    content = {name: value for name, value in row.items() if name not in ("step_labels", "step_rewards")}
    return hashlib.sha256(to_json(content)).hexdigest()
