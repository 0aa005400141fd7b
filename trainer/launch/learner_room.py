"""A limit of the learner's wait for room in the cluster, and a warning of what is missing there.

Ray Train starts its workers again and again until nodes have room for them, without an end: the first time,
and after a node is lost. Its own lines about it stay in Ray's logs.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from ray.train.v2._internal.exceptions import WorkerGroupStartupFailedError
from ray.train.v2._internal.execution.callback import ControllerCallback
from ray.train.v2._internal.execution.controller.state import PreemptingState, RunningState, SchedulingState

from trainer.engines.placement import missing_now
from trainer.errors import TrainerError

logger = logging.getLogger(__name__)

_LOOK_S = 10.0
"""As long as engines wait before a run says what they miss: nodes may be about to join."""

Missing = Callable[[list[Mapping[str, float]]], str | None]
"""Names the first of some bundles of resources that no node could hold; None if there is none."""


class RoomDeadline:
    """The limit of each time in which the workers do not run."""

    def __init__(
        self,
        worker: Mapping[str, float],
        limit_s: float,
        *,
        now: Callable[[], float] = time.monotonic,
        missing: Missing = missing_now,
    ) -> None:
        """``worker``: resources of each worker. ``now`` and ``missing`` have to be picklable."""
        self._worker = dict(worker)
        self._limit_s = limit_s
        self._now = now
        self._missing = missing
        self._since: float | None = None

    def end_wait(self) -> None:
        """Note that the workers run."""
        self._since = None

    def check_wait(self, *, attempt: bool = False, failure: str | None = None) -> None:
        """Raise TrainerError when the workers have not run for too long.

        Args:
            attempt: they are about to be started, and may find room.
            failure: why they failed to start although they had room.
        """
        if self._since is None:
            self._since = self._now()
        if attempt or self._now() - self._since < self._limit_s:
            return
        if (missing := self._missing([self._worker])) is not None:
            reason = f"{missing}; start one, or lower the size of the workers"
        else:
            reason = failure or "the cluster has no free resources for them; add nodes, or lower their number"
        raise TrainerError(
            f"the learner's workers did not start within {self._limit_s:g} s (engine.start_timeout_s): "
            f"{reason}"
        )


class LimitedWait(ControllerCallback):
    """Applies a deadline in Ray Train's controller, where an error of a callback ends the training.

    ``FailureConfig.controller_failure_limit`` would not do: it counts all attempts of a run, and none of a
    group of variable size while the cluster has room for fewer than its least workers.
    """

    def __init__(self, deadline: RoomDeadline) -> None:
        self._deadline = deadline

    def after_controller_state_update(self, previous_state: Any, current_state: Any) -> None:  # noqa: ANN401
        """Check the deadline, unless the workers run or the training has ended."""
        if isinstance(current_state, RunningState | PreemptingState) or current_state.is_terminal():
            self._deadline.end_wait()
            return
        error = getattr(getattr(current_state, "training_failed_error", None), "controller_failure", None)
        failure = " ".join(str(error).split()) if isinstance(error, WorkerGroupStartupFailedError) else None
        self._deadline.check_wait(attempt=isinstance(current_state, SchedulingState), failure=failure)


@contextmanager
def warned_of_missing_room(
    worker: Mapping[str, float], limit_s: float, *, look_s: float = _LOOK_S, missing: Missing = missing_now
) -> Iterator[None]:
    """Warn for the duration of the block when no node of the cluster could hold a worker, each time once."""
    ended = threading.Event()
    every_s = min(look_s, limit_s / 2)

    def watch() -> None:
        before: str | None = None
        while not ended.wait(every_s):
            try:
                found = missing([worker])
            except Exception:
                logger.exception("the nodes of the cluster could not be listed; it is tried again")
                continue
            if found is not None and before is None:
                logger.warning(
                    "%s, as the learner needs; waiting up to %g s for one (engine.start_timeout_s)",
                    found,
                    limit_s,
                )
            before = found

    thread = threading.Thread(target=watch, name="learner room", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(every_s)
