"""Grade what the agent left: copies of its working directory go to a verifier, and rewards come back.

Where no usable reward comes back, the same tests run once more, on the task's untouched files, in a box that
holds nothing of the agent's meanwhile. A reward from these proves that the agent caused the failure, so it
gets the lowest reward; none proves the task at fault.
Standard library only.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from sandbox_service.runner.worker.allowance import kept_waiting
from sandbox_service.runner.world import Verdict, WorldError
from sandbox_service.wire.codes import BoxErrorCode

from .rewards import KEY, RewardError, combine, falls_short, score_of
from .room import Room, no_room
from .step_tests import NoRewardError, StepTests, Work

if TYPE_CHECKING:
    from sandbox_service.runner.world import Agent


JsonObject = dict[str, Any]

_LEAST_S = 1.0
BESIDE_TESTS_S = 60.0
"""Time of each run of a step's tests for what the evaluation does besides."""
_MARGIN_S = 10.0
"""Kept of the evaluation's time, a tenth at most, for ending the tests and for the answer."""
_PROOF_SHARE = 0.5
"""Share of the evaluation's time that is kept for tests on the task's untouched files: they are the same."""
_DONE = 1.0 - 1e-9


class Grader:
    """Grades the steps of one task."""

    def __init__(self, agent: Agent, task: JsonObject, grading: JsonObject, deadline: float) -> None:
        """``deadline`` is that of the evaluation, on the monotonic clock."""
        self._agent = agent
        self._end = deadline
        self._started = time.monotonic()
        left_s = deadline - self._started
        span_s = left_s - min(_MARGIN_S, left_s / 10)
        self._deadline = self._started + span_s
        self._steps: list[JsonObject] = grading["steps"]
        self._tests_deadlines = list(self._divided(span_s * (1 - _PROOF_SHARE)))
        self._strategy: str = grading["strategy"]
        self._least: float = grading["reward_range"][0]
        self._tests = StepTests(agent, task, grading)
        self._archive_bytes: int = task["archive_bytes"]

    def grade(self, works: Sequence[Work | None]) -> Verdict:
        """Grade what each step that was reached has left; None is too large.

        Raises WorldError: grader_failed when the tests give no usable reward on untouched files either,
        deadline_exceeded when the machine is too busy, or the evaluation has too little time to decide,
        sandbox_failed when untouched files find no room in the box.
        """
        # Artifacts come from another box, and this one has no agent to give anything back to.
        last = works[-1] if isinstance(works[-1], str) else None
        room = Room(self._agent, last, self._end, archive_bytes=self._archive_bytes)
        try:
            return self._graded(works, room)
        except TimeoutError:
            reason = "what the agent left could not be removed in time to make room for the tests"
            return Verdict(self._least, success=False, details=self._lowest(reason))
        finally:
            room.give_back()

    def _divided(self, span_s: float) -> Iterator[float]:
        """Yield the deadline of each step's tests: none takes the time of those behind it."""
        shares = [step["timeout_s"] + BESIDE_TESTS_S for step in self._steps]
        for passed in accumulate(shares):
            yield self._started + span_s * passed / sum(shares)

    def _graded(self, works: Sequence[Work | None], room: Room) -> Verdict:
        rewards: list[dict[str, float]] = []
        shown: list[JsonObject] = []
        cut_short = False
        for index, step in enumerate(self._steps):
            work = works[index] if index < len(works) else None
            reached = index < len(works)
            if not reached or work is None:
                found, note = {KEY: self._least}, "too large to be graded" if reached else "not reached"
            else:
                try:
                    # A separate verifier has both what the agent left and the initial files.
                    if step["separate"] or room.is_taken():
                        room.make()
                    found, note = self._rewards(index, work), ""
                except NoRewardError as failure:
                    return self._blame(failure, [index], room, whole=len(self._steps) == 1)
            rewards.append(found)
            shown.append({"step": step["name"], "rewards": found, **({"note": note} if note else {})})
            if falls_short(found, step["min_reward"]) and index + 1 < len(self._steps):
                cut_short = True
                break
        total = combine(rewards, self._strategy)
        try:
            score = score_of(total)
        except RewardError as error:
            return self._blame(NoRewardError(str(error)), range(len(rewards)), room, whole=True)
        details: JsonObject = {"rewards": total}
        if len(self._steps) > 1:
            details |= {"steps": shown, "ended_by_min_reward": cut_short}
        elif "note" in shown[0]:
            details["note"] = shown[0]["note"]
        return Verdict(score, success=score >= _DONE, details=details)

    def _lowest(self, reason: str) -> JsonObject:
        return {"rewards": {KEY: self._least}, "reason": reason}

    def _rewards(self, index: int, work: Work) -> dict[str, float]:
        deadline = self._tests_deadlines[index]
        if deadline - time.monotonic() < _LEAST_S:
            passed_s = time.monotonic() - self._started
            # Before the first tests nothing is measured; the state of the machine alone decides.
            charged_s = passed_s - self._tests.waited_s if index else 0.0
            if kept_waiting(charged_s, passed_s, passed_s):
                raise WorldError("too little time is left for the tests", BoxErrorCode.DEADLINE_EXCEEDED)
            before = "the tests of earlier steps have" if index else "making room for the tests has"
            raise NoRewardError(f"{before} used up their time")
        return self._tests.run(index, work, deadline)

    def _blame(self, failure: NoRewardError, suspects: Sequence[int], room: Room, *, whole: bool) -> Verdict:
        """Return the lowest score if the tests of these steps give rewards on the task's untouched files.

        ``whole``: they are all that counts, so that their rewards must add up to a score. Raises WorldError.
        """
        room.make()
        try:
            found = [self._tests.run(index, None, self._deadline) for index in suspects]
            if whole:
                score_of(combine(found, self._strategy))
        except (NoRewardError, RewardError) as own:
            if isinstance(own, NoRewardError) and own.cut_short:
                detail = f"{failure}; on the task's untouched files {own}"
                raise WorldError(detail, BoxErrorCode.DEADLINE_EXCEEDED) from None
            if isinstance(own, NoRewardError) and own.no_space:
                raise no_room(f"on the task's untouched files {own}") from None
            room.wait_for_room()
            output = own.output if isinstance(own, NoRewardError) else failure.output
            detail = f"{failure}; on the task's untouched files {own}; the end of the output: {output!r}"
            raise WorldError(detail, BoxErrorCode.GRADER_FAILED) from None
        details = self._lowest(str(failure))
        if len(self._steps) > 1:
            details["steps"] = [self._steps[index]["name"] for index in suspects]
        return Verdict(self._least, success=False, details=details)
