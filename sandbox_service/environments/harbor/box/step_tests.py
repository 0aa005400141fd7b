"""Run the tests of one step in a verifier: on what the agent left, or on the task's untouched files.

The tests run the agent's code, so they may hang, be killed or leave no reward by what the agent did. That is
a NoRewardError here; the grader finds the cause. Standard library only.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from sandbox_service.runner.worker.allowance import Allowance, kept_waiting
from sandbox_service.runner.world import WorldError
from sandbox_service.wire.codes import BoxErrorCode
from sandbox_service.wire.json_types import JsonObject

from .layout import SETUP, WORKDIR, give_place, take_place
from .rewards import RewardError, check_range, parse_rewards
from .room import NO_SPACE

if TYPE_CHECKING:
    from sandbox_service.runner.world import Agent, Candidate


Work = str | list[JsonObject]
"""The work of an agent: a copy of its working directory, or artifacts that come from another box."""

ENTRY = "sandbox_service.environments.harbor.box.verifier:serve"
_PIECE = 4 * 1024**2
"""Characters sent to the verifier at once; a multiple of four, so that each piece is base64."""
_SHELL_S = 60.0
_COLLECTED: JsonObject = {"source": "logs/artifacts", "exclude": []}
"""The artifact of every task; one that the task declares for the same place comes after it."""
_FINISH_S = 12.0
_SILENCE_S = 20.0
"""Longest wait for an answer of a verifier that waits for the tests."""
_LEAST_S = 1.0
_SHOWN = 2000
_WAITS = "/proc/self/schedstat"
_STARVED_STATUS = 75
"""Exit status of tests that say that the machine kept them from their time; the EX_TEMPFAIL of sysexits.h."""
_WAITED_SHARE = 0.25
"""Share of their time in which such tests must have waited, where the kernel counts it."""


class NoRewardError(Exception):
    """The tests gave no usable reward; the message says why."""

    def __init__(
        self, reason: str, output: object = "", *, cut_short: bool = False, no_space: bool = False
    ) -> None:
        super().__init__(reason)
        self.output = str(output)[-_SHOWN:]
        """The end of the output of the tests."""
        self.cut_short = cut_short
        """The evaluation ended them before their own time was used up."""
        self.no_space = no_space
        """The verifier had no space for the files that the tests find."""


def take_folders(agent: Agent) -> None:
    """Give the agent the task's folders. Raises WorldError where the box cannot have them."""
    done = agent.shell(take_place(agent.workspace), _SHELL_S)
    if done.exit_code != 0:
        detail = (
            "the box has no /app: tasks need a container, or a process box with namespaces "
            f"({done.output.strip()[:200]})"
        )
        raise WorldError(detail, BoxErrorCode.SANDBOX_FAILED)


class StepTests:
    """The tests of a task's steps."""

    def __init__(self, agent: Agent, task: JsonObject, grading: JsonObject) -> None:
        self._agent = agent
        self._task = task
        self._grading = grading
        self.waited_s = 0.0
        """Seconds in which tests wanted to compute so far and the machine did not let them."""

    def run(self, index: int, work: Work | None, deadline: float) -> dict[str, float]:
        """Return the rewards of a step's tests; they end before ``deadline`` on the monotonic clock.

        ``work`` is what the agent left; None stands for the task's untouched files.

        Raises NoRewardError, or WorldError: deadline_exceeded when the machine is too busy, sandbox_failed
        when the box cannot run tests.
        """
        started = time.monotonic()
        allowance: Allowance | None = None
        try:
            with self._verifier() as verifier:
                self._fill(verifier, index, work, deadline)
                step_s = float(self._grading["steps"][index]["timeout_s"])
                allowance = Allowance(step_s, max(_LEAST_S, deadline - time.monotonic()), verifier.usage)
                code = self._follow(verifier, index, allowance)
                answer = _ask(verifier, {"do": "finish"}, time.monotonic() + _FINISH_S)
        except EOFError:
            raise NoRewardError("the tests ended the verifier's process") from None
        except TimeoutError:
            # It may have been stopped by what runs under its user id, which then sleeps or computes.
            charged_s, passed_s = 0.0, time.monotonic() - started
            if allowance is not None:
                charged_s, passed_s = allowance.charged_s, allowance.charged_s + allowance.waited_s
            if kept_waiting(charged_s, passed_s, passed_s):
                raise _too_busy(passed_s) from None
            raise NoRewardError("the verifier did not answer in time") from None
        finally:
            self.waited_s += 0.0 if allowance is None else allowance.waited_s
        output = answer.get("output")
        if code is None:
            # Only now that nothing of the tests is alive: they must not make the machine look busy.
            if allowance.starved():
                raise _too_busy(allowance.wall_timeout_s)
            raise _not_ended(allowance, step_s, output)
        if code == _STARVED_STATUS and _believable(answer, allowance):
            raise _too_busy(allowance.charged_s + allowance.waited_s)
        if answer.get("ended") is not True:
            raise NoRewardError("a process that the tests started could not be ended", output)
        return self._rewards(code, answer)

    def _rewards(self, code: object, answer: JsonObject) -> dict[str, float]:
        output = answer.get("output")
        # Only what ran beside the tests kills them, and it could have written the reward as well.
        if not isinstance(code, int) or code < 0:
            raise NoRewardError(f"the tests were killed by signal {code}", output)
        try:
            rewards = parse_rewards(_text(answer.get("reward_json")), _text(answer.get("reward_txt")))
            check_range(rewards, *self._grading["reward_range"])
        except RewardError as error:
            raise NoRewardError(str(error), output) from None
        return rewards

    @contextmanager
    def _verifier(self) -> Iterator[Candidate]:
        """Start a verifier in the place of the agent, and give the place back afterwards."""
        # The link must be gone before the verifier makes its own: neither user can remove the other's.
        done = self._agent.shell(give_place(self._agent.workspace), _SHELL_S)
        if done.exit_code != 0:
            raise NoRewardError("the agent's folders could not be put aside", done.output)
        # Tests may start servers; no process of the agent is left that could listen to them.
        verifier = self._agent.candidate(ENTRY, sockets=True)
        try:
            yield verifier
        finally:
            verifier.close()
            with contextlib.suppress(WorldError):
                take_folders(self._agent)

    def _fill(self, verifier: Candidate, index: int, work: Work | None, deadline: float) -> None:
        """Lay out what the tests find."""
        step = self._grading["steps"][index]
        if not _ask(verifier, {"do": "take_folders"}, deadline)["reached"]:
            raise WorldError("the tests cannot reach /app", BoxErrorCode.SANDBOX_FAILED)
        if step["tests_in_image"]:
            assert not isinstance(work, str)
            _ask(verifier, {"do": "take_initial"}, deadline)
            for artifact in work or ():
                _send(verifier, {"do": "unpack_artifact", **artifact}, artifact["archive"], deadline)
            _ask(verifier, {"do": "take_tests"}, deadline)
        else:
            assert not isinstance(work, list)
            self._fill_from_box(verifier, index, work, deadline)

    def _fill_from_box(self, verifier: Candidate, index: int, work: str | None, deadline: float) -> None:
        """Lay out what the tests find where they run in the box of the agent."""
        step = self._grading["steps"][index]
        apart = bool(step["separate"])
        if apart and work is None:
            # As the agent would have left them without doing anything; the artifacts are taken from there.
            self._lay_out(verifier, index, deadline)
            _ask(verifier, {"do": "put_aside"}, deadline)
            self._write_initial(verifier, deadline)
        elif work is None:
            self._lay_out(verifier, index, deadline)
        else:
            if apart:
                self._write_initial(verifier, deadline)
            _send(verifier, {"do": "unpack", "apart": apart}, work, deadline)
        for artifact in (_COLLECTED, *step["artifacts"]) if apart else ():
            _ask(verifier, {"do": "take_artifact", **artifact}, deadline)
        _ask(verifier, {"do": "remove_links"}, deadline)
        for files in _batches(step["files"]):
            _ask(verifier, {"do": "write", "folder": "tests", "files": files}, deadline)

    def _lay_out(self, verifier: Candidate, index: int, deadline: float) -> None:
        """Write untouched files, with what the task adds as its steps begin, up to the one that is tested."""
        self._write_initial(verifier, deadline)
        for step in self._task["steps"][: index + 1]:
            _ask(verifier, {"do": "write", "folder": WORKDIR, "files": step["files"]}, deadline)
            if SETUP in step["files"]:
                _ask(verifier, {"do": "set_up", "env": self._task["env"]}, deadline)

    def _write_initial(self, verifier: Candidate, deadline: float) -> None:
        if self._task["image"]:
            _ask(verifier, {"do": "take_initial"}, deadline)
        _ask(verifier, {"do": "write", "folder": WORKDIR, "files": self._task["files"]}, deadline)

    def _follow(self, verifier: Candidate, index: int, allowance: Allowance) -> object:
        """Run the tests; return their exit code, None when their time is used up."""
        env = {**self._task["env"], **self._grading["steps"][index]["env"]}
        _ask(verifier, {"do": "start", "env": env, "cwd": self._task["tests_cwd"]}, allowance.end)
        while not allowance.over():
            try:
                silent = min(allowance.end, time.monotonic() + _SILENCE_S)
                code = _ask(verifier, {"do": "wait", "timeout_s": allowance.wait_s}, silent)["exit_code"]
            except TimeoutError:
                allowance.blocked()
                raise
            if code is not None:
                allowance.blocked()
                return code
        return None


def _batches(files: JsonObject) -> Iterator[JsonObject]:
    """Yield files in batches that fit into one request."""
    batch: JsonObject = {}
    size = 0
    for path, file in files.items():
        if batch and size + len(file["base64"]) > _PIECE:
            yield batch
            batch, size = {}, 0
        batch[path] = file
        size += len(file["base64"])
    yield batch


def _send(verifier: Candidate, request: JsonObject, archive: str, deadline: float) -> None:
    """Send a request with an archive, in pieces."""
    for begin in range(0, max(1, len(archive)), _PIECE):
        piece, last = archive[begin : begin + _PIECE], begin + _PIECE >= len(archive)
        _ask(verifier, {**request, "archive": piece, "last": last}, deadline)


def _ask(verifier: Candidate, request: JsonObject, deadline: float) -> JsonObject:
    answer = verifier.request(request, min(_SHELL_S, max(_LEAST_S, deadline - time.monotonic())))
    if "error" in answer:
        reason = f"the verifier could not {request['do']}: {answer['error']}"
        raise NoRewardError(reason[:300], no_space=NO_SPACE in reason)
    return answer


def _too_busy(passed_s: float) -> WorldError:
    detail = (
        f"the machine is too busy to grade: the tests did not get their time in {passed_s:.0f} s; try again"
    )
    return WorldError(detail, BoxErrorCode.DEADLINE_EXCEEDED)


def _not_ended(allowance: Allowance, step_s: float, output: object) -> NoRewardError:
    if allowance.time_s >= step_s:
        return NoRewardError(f"the tests did not end within {step_s:g} s", output)
    detail = (
        f"the tests did not end within the {allowance.time_s:.0f} s that are left of the evaluation; the "
        f"task gives them {step_s:g} s"
    )
    return NoRewardError(detail, output, cut_short=True)


def _believable(answer: JsonObject, allowance: Allowance) -> bool:
    """Return whether tests that call the machine too busy left no reward, waited, and it is busy.

    Call it when nothing of the tests is alive: what runs beside them can look as if it waited, by processes
    that end before they are counted, and cannot make the machine look busy afterwards.
    """
    if answer.get("reward_json") is not None or answer.get("reward_txt") is not None:
        return False
    passed_s = allowance.charged_s + allowance.waited_s
    # gVisor counts waits as computing, so that only the tests themselves can have noticed.
    waited = allowance.waited_s > _WAITED_SHARE * passed_s or not os.path.exists(_WAITS)  # noqa: PTH110
    return waited and kept_waiting(0.0, passed_s, passed_s)


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
