"""Grade what the agent left: copies of its working directory go to a verifier, and rewards come back.

Where no usable reward comes back, the same tests run once more, on the task's untouched files, in a box that
holds nothing of the agent's meanwhile. A reward from these proves that the agent caused the failure, so it
gets the lowest reward; none proves the task at fault.
Standard library only.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import accumulate
from typing import TYPE_CHECKING

from sandbox_service.runner.worker.allowance import kept_waiting
from sandbox_service.runner.world import Verdict, WorldError
from sandbox_service.wire.codes import BoxErrorCode

from .rewards import RewardError, score_of
from .room import Room, no_room
from .step_results import DueTests, StepResults, untested
from .step_tests import NoRewardError, StepTests, Work

if TYPE_CHECKING:
    from sandbox_service.runner.world import Agent
    from sandbox_service.wire.json_types import JsonObject


_LEAST_S = 1.0
BESIDE_TESTS_S = 60.0
"""Time of each run of a step's tests for what the evaluation does besides."""
_MARGIN_S = 10.0
"""Kept of the evaluation's time, a tenth at most, for ending the tests and for the answer."""
_PROOF_SHARE = 0.5
"""Share of the evaluation's time that is kept for tests on the task's untouched files: they are the same."""
_NOT_REMOVED = "what the agent left could not be removed in time to make room for the tests"


class Grader:
    """Grades the steps of one task, or one of them."""

    def __init__(
        self, agent: Agent, task: JsonObject, grading: JsonObject, deadline: float, part: int | None = None
    ) -> None:
        """``deadline`` is that of the evaluation, on the monotonic clock; ``part`` is the step that it is of.

        Without a part it is that of all steps.
        """
        self._agent = agent
        self._end = deadline
        self._started = time.monotonic()
        left_s = deadline - self._started
        span_s = left_s - min(_MARGIN_S, left_s / 10)
        self._deadline = self._started + span_s
        self._steps: list[JsonObject] = grading["steps"]
        self._order = range(len(self._steps)) if part is None else range(part, part + 1)
        self._tests_deadlines = dict(
            zip(self._order, self._divided(span_s * (1 - _PROOF_SHARE)), strict=True)
        )
        self._whole = part is None and len(self._steps) == 1
        """The rewards of a step are those of the task."""
        self._grading = grading
        self._tests = StepTests(agent, task, grading)
        self._archive_bytes: int = task["archive_bytes"]

    def grade(self, works: Sequence[Work | None]) -> Verdict:
        """Grade what each step that was reached has left; None is too large.

        Raises WorldError: grader_failed when the tests give no usable reward on untouched files either,
        deadline_exceeded when the machine is too busy, or the evaluation has too little time to decide,
        sandbox_failed when untouched files find no room in the box.
        """
        decisions = StepResults(self._grading, len(works))
        # Artifacts come from another box, and this one has no agent to give anything back to.
        present = works[-1] if isinstance(works[-1], str) else None
        with self._room(present) as room:
            try:
                return self._graded(works, decisions, room)
            except TimeoutError:
                return decisions.lowest(_NOT_REMOVED)

    def grade_part(self, due: DueTests, work: Work | None, present: Work | None = None) -> Verdict:
        """Grade one step: the verdict's details are its result. Raises as ``grade``.

        ``present`` is the copy of the last step that was reached. It comes back where all that the agent has
        is too large to.
        """
        decisions = StepResults(self._grading, len(self._steps))
        with self._room(present) as room:
            try:
                return Verdict(0.0, success=False, details=self._result(due, work, decisions, room))
            except TimeoutError:
                return decisions.lowest(_NOT_REMOVED)

    def _divided(self, span_s: float) -> Iterator[float]:
        """Yield the deadline of each step's tests: none takes the time of those behind it."""
        shares = [self._steps[index]["timeout_s"] + BESIDE_TESTS_S for index in self._order]
        for passed in accumulate(shares):
            yield self._started + span_s * passed / sum(shares)

    @contextmanager
    def _room(self, present: Work | None) -> Iterator[Room]:
        room = Room(self._agent, present, self._end, archive_bytes=self._archive_bytes)
        try:
            yield room
        finally:
            room.give_back()

    def _graded(self, works: Sequence[Work | None], decisions: StepResults, room: Room) -> Verdict:
        results: list[JsonObject] = []
        try:
            while isinstance(due := decisions.decide(results), DueTests):
                results.append(self._result(due, works[due.index], decisions, room))
        except RewardError as error:
            raise _fault(str(error), "", room) from None
        return due

    def _result(self, due: DueTests, work: Work | None, decisions: StepResults, room: Room) -> JsonObject:
        """Run a step's tests; return their result. Raises TimeoutError and WorldError."""
        index = due.index
        if due.untouched:
            return {"rewards": self._untouched(index, NoRewardError("the rewards are no score"), room)}
        if work is None:
            return untested("too large to be graded")
        try:
            # A separate verifier has both what the agent left and the initial files.
            if self._steps[index]["separate"] or room.is_taken():
                room.make()
            return {"rewards": self._rewards(index, work)}
        except NoRewardError as failure:
            self._untouched(index, failure, room)
            return decisions.lowest(str(failure)).details

    def _rewards(self, index: int, work: Work) -> dict[str, float]:
        deadline = self._tests_deadlines[index]
        if deadline - time.monotonic() < _LEAST_S:
            passed_s = time.monotonic() - self._started
            later = index > self._order[0]
            # Before the first tests nothing is measured; the state of the machine alone decides.
            charged_s = passed_s - self._tests.waited_s if later else 0.0
            if kept_waiting(charged_s, passed_s, passed_s):
                raise WorldError("too little time is left for the tests", BoxErrorCode.DEADLINE_EXCEEDED)
            before = "the tests of earlier steps have" if later else "making room for the tests has"
            raise NoRewardError(f"{before} used up their time")
        return self._tests.run(index, work, deadline)

    def _untouched(self, index: int, failure: NoRewardError, room: Room) -> dict[str, float]:
        """Return the rewards of a step's tests on the task's untouched files.

        Where they are all that counts, they must be a score. Raises WorldError if they give none.
        """
        room.make()
        try:
            found = self._tests.run(index, None, self._deadline)
            if self._whole:
                score_of(found)
        except NoRewardError as own:
            reason = f"{failure}; on the task's untouched files {own}"
            if own.cut_short:
                raise WorldError(reason, BoxErrorCode.DEADLINE_EXCEEDED) from None
            if own.no_space:
                raise no_room(f"on the task's untouched files {own}") from None
            raise _fault(reason, own.output, room) from None
        except RewardError as own:
            reason = f"{failure}; on the task's untouched files {own}"
            raise _fault(reason, failure.output, room) from None
        return found


def _fault(reason: str, output: str, room: Room) -> WorldError:
    """Return the error of a task whose tests give no reward without what an agent does.

    Raises TimeoutError where something that the agent left was in their way.
    """
    room.wait_for_room()
    detail = f"{reason}; the end of the output: {output!r}"
    return WorldError(detail, BoxErrorCode.GRADER_FAILED)
