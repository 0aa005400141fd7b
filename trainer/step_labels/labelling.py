"""Label the steps of many episodes: concurrently, one row for each as it is done, so that it can be resumed.

Rows are added to ``FILE.part`` as they are done; the file appears under its name when all episodes have been
tried. Where some failed, the part stays, and resuming tries these again.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from trainer.errors import ConfigError, DataError, LabelFailed
from trainer.recorded.bad_rows import RowError
from trainer.recorded.episode_rows import episode_row, read_episode_row, write_episodes
from trainer.recorded.rows import jsonl_rows
from trainer.recorded.types import RowOrigin

from .labels import with_labels

if TYPE_CHECKING:
    from trainer.recorded.types import RecordedEpisode

    from .labels import StepLabeller

OnLabelled: TypeAlias = Callable[[int, int], None]
"""Called with the number of episodes that are done, and that of all."""
_SHOWN = 5


@dataclass(frozen=True, slots=True)
class LabelledFile:
    """The result of labelling."""

    episodes: int
    """Episodes in the file."""
    steps: int
    """Their steps that have labels."""
    unlabelled: int
    """Their steps that have none."""
    failures: Mapping[str, int]
    """Episodes and steps without labels, by the class of the failure."""
    failed: int
    """Episodes that are not in the file."""
    reasons: tuple[str, ...]
    """Their reasons, those of the first of them."""


async def label_episodes(
    episodes: Sequence[RecordedEpisode],
    labeller: StepLabeller,
    output: Path,
    settings: str,
    *,
    concurrency: int,
    resume: bool = False,
    on_labelled: OnLabelled = lambda done, total: None,
) -> LabelledFile:
    """Label the steps of episodes, and write them to a file of rows, in their order.

    Args:
        episodes: in the order of the file.
        labeller: gives the labels.
        output: the file. While it is incomplete, ``FILE.part`` has the rows that are done.
        settings: what the labels depend on. A part that was labelled otherwise is refused.
        concurrency: episodes at a time.
        resume: go on with the part.
        on_labelled: called after each episode.

    Raises ConfigError for a part that belongs to another labelling, DataError if no episode could be
    labelled, and what the labeller raises.
    """
    part = _Part(output, settings, resume=resume)
    work = _Labelling(episodes, labeller, part, on_labelled)
    await work.run(concurrency)
    if not work.done:
        raise DataError("no episode could be labelled:\n" + "\n".join(work.reasons[:_SHOWN]))
    labelled = [work.done[place] for place in sorted(work.done)]
    write_episodes(output, labelled)
    if not work.reasons:
        part.remove()
    return _summary(labelled, work.failures, work.reasons)


class _Labelling:
    """Labels episodes that are not done, several at a time."""

    def __init__(
        self,
        episodes: Sequence[RecordedEpisode],
        labeller: StepLabeller,
        part: _Part,
        on_labelled: OnLabelled,
    ) -> None:
        self._labeller = labeller
        self._part = part
        self._on_labelled = on_labelled
        self._total = len(episodes)
        self._waiting: deque[tuple[int, RecordedEpisode]] = deque()
        self.done: dict[int, RecordedEpisode] = {}
        """Labelled episodes by their places."""
        self.failures: Counter[str] = Counter()
        self.reasons: list[str] = []
        """A sentence for each episode that failed."""
        known = part.read()
        for place, episode in enumerate(episodes):
            rows = known.get(_digest(episode))
            if rows:
                self.done[place] = replace(rows.popleft(), origin=episode.origin)
            else:
                self._waiting.append((place, episode))

    async def run(self, concurrency: int) -> None:
        """Label what is not done. Raises what the labeller raises, except for LabelFailed."""
        self._on_labelled(len(self.done), self._total)
        workers = [asyncio.create_task(self._work()) for _ in range(min(concurrency, len(self._waiting)))]
        try:
            await asyncio.gather(*workers)
        finally:
            for worker in workers:
                worker.cancel()
            await asyncio.gather(*workers, return_exceptions=True)

    async def _work(self) -> None:
        while self._waiting:
            place, episode = self._waiting.popleft()
            try:
                found = await self._labeller.label_steps(episode)
            except LabelFailed as failure:
                self.failures[failure.failure_class] += 1
                self.reasons.append(str(failure))
            else:
                self.failures.update(found.failures)
                self.done[place] = with_labels(episode, found)
                self._part.add(self.done[place])
            self._on_labelled(len(self.done) + len(self.reasons), self._total)


def _summary(
    labelled: Sequence[RecordedEpisode], failures: Mapping[str, int], reasons: Sequence[str]
) -> LabelledFile:
    known = total = 0
    for episode in labelled:
        steps = list(zip(*episode.step_labels.values(), strict=True))
        total += len(steps)
        known += sum(all(label is not None for label in step) for step in steps)
    return LabelledFile(
        len(labelled), known, total - known, dict(failures), len(reasons), tuple(reasons[:_SHOWN])
    )


def _digest(episode: RecordedEpisode) -> str:
    """Return a digest of what an episode is, without its labels."""
    said = [message.model_dump(mode="json", exclude_none=True) for message in episode.messages]
    content = json.dumps([episode.id, *episode.task, said], ensure_ascii=False, sort_keys=True)
    return hashlib.sha256(content.encode()).hexdigest()


class _Part:
    """The rows that are done while the file is incomplete, and the settings that they depend on."""

    def __init__(self, output: Path, settings: str, *, resume: bool) -> None:
        self._file = output.with_name(f"{output.name}.part")
        self._settings_file = output.with_name(f"{output.name}.part.settings")
        if self._settings_file.exists() and not resume:
            raise ConfigError(
                f"{self._file} is left of an earlier labelling; go on with it by --resume, or remove it and "
                f"{self._settings_file.name}"
            )
        if resume and not self._settings_file.exists():
            raise ConfigError(f"there is nothing to resume: {self._settings_file} does not exist")
        if resume and self._settings_file.read_text(encoding="utf-8") != settings:
            raise ConfigError(f"{self._file} was labelled with other settings: see {self._settings_file}")
        output.parent.mkdir(parents=True, exist_ok=True)
        self._settings_file.write_text(settings, encoding="utf-8")

    def read(self) -> dict[str, deque[RecordedEpisode]]:
        """Return the episodes that are done, by their digests; a torn last line is cut off."""
        found: dict[str, deque[RecordedEpisode]] = {}
        if not self._file.exists():
            return found
        body = self._file.read_bytes()
        whole = body[: body.rfind(b"\n") + 1]
        if len(whole) < len(body):
            self._file.write_bytes(whole)
        for number, row in jsonl_rows(self._file):
            if isinstance(row, RowError) or not isinstance(row, dict):
                raise DataError(f"{self._file}:{number}: is no labelled episode; remove the file")
            (episode,) = read_episode_row(row, RowOrigin(str(self._file), number))
            found.setdefault(_digest(episode), deque()).append(episode)
        return found

    def add(self, episode: RecordedEpisode) -> None:
        """Add an episode that is done."""
        with self._file.open("a", encoding="utf-8") as file:
            file.write(json.dumps(episode_row(episode), ensure_ascii=False) + "\n")

    def remove(self) -> None:
        """Remove the part: the file is complete."""
        self._file.unlink(missing_ok=True)
        self._settings_file.unlink(missing_ok=True)
