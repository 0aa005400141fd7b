"""Process rewards whose models are refreshed while the policy moves.

Every so many weight versions, the models of steps are trained on the latest episodes, whose outcome is traced
back to their steps. An episode is scored before it can be trained on: the metrics ``reward/process_accuracy``
and ``reward/process_brier`` of a step compare the probabilities that its episodes were played with.
"""

from __future__ import annotations

import asyncio
import json
import logging
import shutil
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from trainer.advantage.step_estimation import traced_back
from trainer.durable_files import write_durably
from trainer.errors import ConfigError
from trainer.reward_models.opening import LocalScorer, MemberModel
from trainer.reward_models.queue import END_S
from trainer.reward_models.refreshing import LabelledRow, ModelRefresher, write_refreshed

from .learned import LearnedRewards

if TYPE_CHECKING:
    from trainer.config.learned_reward import ProcessRewardConfig, RefreshConfig
    from trainer.types import Trajectory

logger = logging.getLogger(__name__)

_STATE = "refresh.json"
"""Names the version of the refreshed models that a resumed run begins with."""
_VERSION = "version-"
"""Begins the names of their folders."""


@dataclass(slots=True)
class _Member:
    """A model that is refreshed."""

    opened: MemberModel
    scorer: LocalScorer
    refresher: ModelRefresher
    number: int
    written: Path
    """The folder with its weights after the latest refresh, or before the first."""

    async def write(self, version: Path) -> None:
        """Write it to the folder of a version, in the thread that owns it."""
        model, folder = self.scorer.model, version / f"{self.number}"
        await self.scorer.run_between(lambda: write_refreshed(model, self.written, folder))

    async def restore(self) -> None:
        """Return to the weights that were written last."""
        await self.scorer.run_between(lambda: self.refresher.restore(self.written))


class _Turns:
    """Episodes that are being scored, and a refresh: never both, and episodes wait for a refresh that waits.

    Otherwise the time of a refresh would count as that of the episodes that are scored behind it, whose
    deadline it may exceed.
    """

    def __init__(self) -> None:
        self._scored = 0
        self._open, self._idle = asyncio.Event(), asyncio.Event()
        self._open.set()
        self._idle.set()

    @asynccontextmanager
    async def scoring(self) -> AsyncIterator[None]:
        while not self._open.is_set():
            await self._open.wait()
        self._scored += 1
        self._idle.clear()
        try:
            yield
        finally:
            self._scored -= 1
            if not self._scored:
                self._idle.set()

    @asynccontextmanager
    async def refreshing(self) -> AsyncIterator[None]:
        """For one refresh at a time."""
        self._open.clear()
        try:
            await self._idle.wait()
            yield
        finally:
            self._open.set()


class RefreshedRewards:
    """Implements ``EpisodeRewards`` with process reward models, and refreshes them."""

    def __init__(
        self,
        config: ProcessRewardConfig,
        refresh: RefreshConfig,
        folder: Path,
        open_model: Callable[[str], MemberModel],
        end_s: float = END_S,
    ) -> None:
        """
        Args:
            config: the process reward.
            refresh: its refresh.
            folder: for refreshed models; those that are there are used in place of the given ones.
            open_model: opens a model; may raise ConfigError.
            end_s: the time that ``close`` leaves an update in progress.
        """
        self._end_s = end_s
        self._refresh = refresh
        self._folder = folder
        self._open_given = open_model
        self._members: dict[str, _Member] = {}
        self._rewards = LearnedRewards(config, self._open)
        self._names = config.models
        self._fresh: deque[Trajectory] = deque(maxlen=refresh.episodes)
        self._refreshing: asyncio.Task[None] | None = None
        self._turns = _Turns()
        self._version = self._read_version()

    async def add_reward(self, trajectory: Trajectory) -> Trajectory:
        async with self._turns.scoring():
            rewarded = await self._rewards.add_reward(trajectory)
        if rewarded.success is not None and rewarded.turns:
            self._fresh.append(rewarded)
            spans = (span for turn in rewarded.turns for span in turn.versions)
            version = max((span.version for span in spans), default=0)
            if version >= self._version + self._refresh.every and len(self._fresh) == self._fresh.maxlen:
                await self._refreshed(version)
        return rewarded

    async def close(self) -> None:
        """Close the models, after the update that is under way; one that takes longer fails.

        It may never end, as behind a pass that hangs. A resumed run has the models of the update before it.
        """
        under_way = set() if self._refreshing is None else {self._refreshing}
        if under_way and (await asyncio.wait(under_way, timeout=self._end_s))[1]:
            logger.warning("the refresh of the process reward models is not done after %g s", self._end_s)
        await self._rewards.close()
        if under_way:
            await asyncio.wait(under_way, timeout=self._end_s)  # it fails, since its models are closed
        for each in under_way:
            each.cancel()
        await asyncio.gather(*under_way, return_exceptions=True)

    async def check_models(self) -> None:
        """Open and close the models that exist before the run. Raises ConfigError, RewardFailed."""
        await self._rewards.check_models()

    async def _refreshed(self, version: int) -> None:
        """Have all models updated, or wait for the update that is under way.

        An update goes on without the episode that it began with, whose group may fail meanwhile: otherwise
        some models of an ensemble would be newer than others.
        """
        if self._refreshing is None or self._refreshing.done():
            self._refreshing = asyncio.create_task(self._update_models(version), name="refresh")
        await asyncio.shield(self._refreshing)

    async def _update_models(self, version: int) -> None:
        fresh = tuple(self._fresh)
        members = tuple(self._members.values())
        async with self._turns.refreshing():
            try:
                losses = [await self._trained(member, fresh) for member in members]
                await self._write_models(version, members)
            except Exception:
                # The next attempt trains with the same episodes.
                for member in members:
                    await member.restore()
                raise
        self._version = version
        used = {id(each) for each in fresh}
        self._fresh = deque((each for each in self._fresh if id(each) not in used), self._fresh.maxlen)
        logger.info(
            "weights %d: refreshed %d process reward models with %d episodes; loss %.4f",
            version,
            len(losses),
            len(fresh),
            sum(losses) / len(losses),
        )

    async def _write_models(self, version: int, members: Sequence[_Member]) -> None:
        """Write all models of a version, and then the note by which a resumed run has all of them or none."""
        folder = self._folder / f"{_VERSION}{version}"
        await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)  # of an attempt that failed
        for member in members:
            await member.write(folder)
        await asyncio.to_thread(write_durably, self._folder / _STATE, json.dumps({"version": version}))
        for member in members:
            member.written = folder / f"{member.number}"
        for other in self._folder.glob(f"{_VERSION}*"):
            if other != folder:
                await asyncio.to_thread(shutil.rmtree, other, ignore_errors=True)

    async def _trained(self, member: _Member, fresh: tuple[Trajectory, ...]) -> float:
        rows = [row for each in fresh for row in self._rows(member, each)]
        # In the thread that scores, which owns the model.
        return await member.scorer.run_between(
            lambda: member.refresher.train(rows, self._refresh.updates, self._refresh.batch)
        )

    def _rows(self, member: _Member, trajectory: Trajectory) -> list[LabelledRow]:
        agent = trajectory.without_counterpart()
        played = traced_back(float(bool(agent.success)), len(agent.turns), self._refresh.discount)
        labels = iter(label for _, label in sorted(zip(agent.playing_order(), played, strict=True)))
        rows = member.opened.reader.read_episode(agent)
        return [LabelledRow(row, tuple(next(labels) for _ in row.ends)) for row in rows]

    def _open(self, name: str) -> MemberModel:
        number = self._names.index(name)
        refreshed = self._folder / f"{_VERSION}{self._version}" / f"{number}"
        opened = self._open_given(str(refreshed) if refreshed.is_dir() else name)
        if not isinstance(opened.scorer, LocalScorer):
            raise ConfigError(f"reward.process.refresh: {name} is a served model; name a folder or a stage")
        if self._refresh.dimension not in opened.note.dimensions:
            raise ConfigError(
                f"reward.process.refresh.dimension: {name} has no {self._refresh.dimension}; its dimensions "
                f"are {', '.join(opened.note.dimensions)}"
            )
        refresher = ModelRefresher(
            opened.scorer.model, self._refresh.dimension, self._refresh.learning_rate, number
        )
        self._members[name] = _Member(opened, opened.scorer, refresher, number, opened.scorer.model.folder)
        return opened

    def _read_version(self) -> int:
        file = self._folder / _STATE
        return int(json.loads(file.read_text(encoding="utf-8"))["version"]) if file.exists() else 0
