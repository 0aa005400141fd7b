"""Produce the batches of a run: play groups, score them, journal them, and serve each step's batch.

    take(step)       the step's batch, the same whenever it is asked for
    weights_synced(v)   the engines sample with weights v: further groups may begin
    rewind(step)     the learner goes on from a checkpoint of that step: its batches are served again
    committed(step)  there is such a checkpoint: what only earlier steps need may be forgotten

A batch is journaled before it is handed out, and everything here is made again from the journal, so that it
may be killed at any time. Playing begins with the first ``weights_synced``: before it nobody knows what the
engines sample with. Steps and versions are those of reinforcement learning, from 0. Knows no Ray.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from trainer.errors import CheckpointError, DataError
from trainer.rollout.attempts import Attempts
from trainer.rollout.backpressure import Slots, follow_pool
from trainer.rollout.collector import Collector
from trainer.types import Batch, Objective

from .assemble import ScoredGroup
from .dependencies import ProducerStatus
from .events import TasksListed
from .exports import Exports
from .group_cache import GroupCache
from .group_source import JournaledGroupSource
from .held_out import HeldOut
from .ledger import folded
from .listing import list_run
from .waiting import ProgressWaiter
from .writer import JournalWriter

if TYPE_CHECKING:
    from trainer.config import RunConfig

    from .dependencies import Dependencies, Imitation
    from .events import Assembled


logger = logging.getLogger(__name__)

T = TypeVar("T")


class BatchProducer:
    """The batch producer of one run, for one event loop. Call ``start`` first."""

    def __init__(self, config: RunConfig, folder: Path, parts: Dependencies) -> None:
        rollout = config.rollout
        self._config = config
        self._folder = folder
        self._parts = parts
        self._journal = parts.journal(folder / "experience.sqlite")
        self._slots = Slots(rollout.concurrency)
        self._attempts = Attempts(parts.player, rollout, self._slots, parts.watch, parts.sleep)
        self._collector = Collector(self._attempts, rollout, self._slots, parts.sleep)
        self._waiter = ProgressWaiter(
            parts.watch,
            report_s=rollout.stall_report_s,
            stall_s=rollout.stall_timeout_s,
            on_stall=logger.warning,
            tick_s=parts.tick_s,
        )
        self._writer = JournalWriter(self._journal)
        self._group_cache = GroupCache(self._writer, parts.score, self._waiter.notify)
        self._collecting: asyncio.Task[None] | None = None
        self._evaluations: dict[int, asyncio.Task[Mapping[str, float]]] = {}
        self._imitation: asyncio.Task[Imitation] | None = None
        self._latest: Batch | None = None
        self._handing_out = asyncio.Lock()
        self._commits: list[int] = []

    async def start(self, *, go_on: bool = False) -> None:
        """Make everything again from the journal; a new run lists its tasks.

        With ``go_on`` playing goes on at once with the weights that were synced last: for a process that
        takes the place of one that died, while engines and learner live on.

        Raises DataError when there are none, ServiceUnavailable when the service does not answer.
        """
        listed, *events = list(self._journal.events()) or [await self._first_event()]
        if not isinstance(listed, TasksListed):
            raise CheckpointError(f"the journal in {self._folder} does not begin with its tasks")
        self._ledger = folded(self._config, listed, events)
        version = self._journal.version() if go_on else None
        self._exports = Exports(self._folder, self._journal, self._config.tracking.trajectories)
        self._exports.recover(
            self._ledger.batches,
            lambda index: ScoredGroup.of(self._journal.group(index), self._parts.score),
        )
        self._source = JournaledGroupSource(
            self._config,
            self._writer,
            self._ledger,
            self._group_cache,
            self._parts.watch,
            self._waiter.notify,
        )
        self._held_out = HeldOut(
            self._attempts, self._config, self._ledger.held_out, self._folder / "evaluations.jsonl"
        )
        if version is not None:
            await self.weights_synced(version)

    async def take(self, step: int) -> Batch:
        """The batch of a step. Idempotent, and any number of callers may ask at once.

        Raises NoProgress when nothing moves, CheckpointError for a step that is neither next nor kept, and
        ConfigError or DataError when playing cannot go on.
        """
        if step > self._ledger.next_step:
            raise CheckpointError(f"batch {step} was asked for, and the next one is {self._ledger.next_step}")
        total_s = self._config.learner.batch_timeout_s
        assembled = await self._waiter.wait_until(f"batch {step}", lambda: self._assembled(step), total_s)
        async with self._handing_out:
            if self._latest is None or self._latest.step != step:
                self._latest = await self._batch(assembled)
            return self._latest

    async def imitation(self, step: int) -> Batch:
        """The batch of a step of the warm start. Raises DataError when the run has none, and NoProgress."""
        warm_start = self._config.warm_start
        if self._parts.imitation is None or warm_start is None:
            raise DataError("the run has no warm start")
        if self._imitation is None:
            self._imitation = asyncio.ensure_future(self._parts.imitation())
            self._imitation.add_done_callback(lambda _: self._waiter.notify())
        playing = self._imitation
        batches = await self._waiter.wait_until(
            "the warm start", lambda: _result(playing), warm_start.timeout_s
        )
        return batches.batch(step)

    async def weights_synced(self, version: int) -> None:
        """Episodes begin with these weights from now on."""
        await self._writer.call(lambda journal: journal.set_version(version))
        self._source.version = version
        if self._collecting is None:
            self._collecting = asyncio.create_task(self._collect())
            self._collecting.add_done_callback(lambda _: self._waiter.notify())
        self._collector.wake()

    async def rewind(self, step: int) -> None:
        """Serve batches from this step on again; what is under way begins anew after
        the next ``weights_synced``.

        Raises CheckpointError when the journal does not know the steps before it.
        """
        if step > self._ledger.next_step:
            raise CheckpointError(
                f"the checkpoint is of step {step}, and {self._folder} knows batches before "
                f"{self._ledger.next_step} only: they are not of one run"
            )
        self._commits = [each for each in self._commits if each <= step]  # later ones are made again
        await self._stop_collecting()
        await self._writer.call(lambda journal: journal.set_version(None))
        self._source.interrupted()

    async def committed(self, step: int) -> None:
        """Forget the episodes that only steps before the oldest checkpoint kept can ask for.

        Of one checkpoint more than are kept: a learner that dies now may not find the newest one yet.
        """
        self._commits.append(step)
        kept = self._config.checkpoint.keep + 1
        if len(self._commits) >= kept:
            needed = self._ledger.needed(self._commits[-kept])
            await self._writer.call(lambda journal: journal.keep_only(needed))

    async def evaluate(self, step: int) -> Mapping[str, float]:
        """Success on held-out tasks. A step is evaluated once, over restarts too. Raises NoProgress."""
        if not self._ledger.held_out:
            return {}
        if step not in self._evaluations:
            self._evaluations[step] = asyncio.create_task(self._held_out.evaluate(step))
            self._evaluations[step].add_done_callback(lambda _: self._waiter.notify())
        task = self._evaluations[step]
        total_s = self._config.evaluation.timeout_s
        return await self._waiter.wait_until(f"evaluation {step}", lambda: _result(task), total_s)

    async def record(self, step: int, metrics: Mapping[str, float]) -> None:
        """Keep the metrics of a step, as the whole run counts them."""
        self._parts.tracker.log(step, metrics)

    async def status(self) -> ProducerStatus:
        """Where it stands."""
        return ProducerStatus(
            next_step=self._ledger.next_step,
            version=self._source.version,
            ready=len(self._ledger.ready),
            playing=len(self._source.playing),
            episodes=self._slots.held,
            slots=self._slots.limit,
        )

    async def close(self) -> None:
        """End what is being played and let go of everything; may be called twice."""
        others = [*self._evaluations.values(), *([self._imitation] if self._imitation else [])]
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        await self._stop_collecting()
        if self._parts.close is not None:
            await self._parts.close()
        self._parts.tracker.close()
        self._group_cache.close()
        await asyncio.to_thread(self._writer.close)

    async def _first_event(self) -> TasksListed:
        listed = await list_run(self._config, self._parts.service)
        self._journal.append(listed)
        return listed

    async def _batch(self, assembled: Assembled) -> Batch:
        """A batch that was made, as soon as it is on disk."""
        await self._writer.flush()
        indices = (*assembled.fresh, *assembled.replayed)
        total_s = self._config.learner.batch_timeout_s
        await self._waiter.wait_until("what was journaled", lambda: self._group_cache.get(indices), total_s)
        samples = await self._group_cache.samples(indices)
        self._group_cache.keep_only({*indices, *self._ledger.ready})
        self._prepare()
        return Batch(assembled.step, Objective.REINFORCE, samples, dict(assembled.facts))

    def _prepare(self) -> None:
        """Have the next step's instances created while the learner updates."""
        if self._parts.prepare is None:
            return
        free = self._slots.limit - self._slots.held
        for spec in self._source.upcoming():
            for member in range(spec.size):
                if free > 0:
                    self._parts.prepare(spec, member)
                    free -= 1

    def _assembled(self, step: int) -> Assembled | None:
        known = self._ledger.batches.get(step)
        if known is not None:
            return known
        if self._collecting is not None and self._collecting.done():
            self._collecting.result()
        made = self._source.assemble(step)
        if made is not None and (groups := self._group_cache.get((*made.fresh, *made.replayed))) is not None:
            self._writer.post(lambda _: self._exports.write(made, groups))
        return made

    async def _collect(self) -> None:
        environment = self._config.tasks.environment
        following = follow_pool(
            self._parts.service,
            environment,
            self._slots,
            self._config.rollout.concurrency,
            lambda: self._parts.watch.in_phase("create"),
        )
        tasks = {
            asyncio.create_task(self._collector.run(self._source)),
            asyncio.create_task(following),
        }
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _stop_collecting(self) -> None:
        collecting, self._collecting = self._collecting, None
        if collecting is not None:
            collecting.cancel()
            await asyncio.gather(collecting, return_exceptions=True)


def _result(task: asyncio.Task[T]) -> T | None:
    return task.result() if task.done() else None
