"""Grade what the agent left: copies of its working directory go to a verifier, and rewards come back.

The agent's processes are dead whenever tests are in the box, and the verifier's folder is gone before the
agent acts again. Standard library only.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from sandbox_service.runner.world import Verdict, WorldError
from sandbox_service.wire.codes import BoxErrorCode

from .layout import give_place, pack, take_place
from .rewards import RewardError, combine, falls_short, parse_rewards, score_of

if TYPE_CHECKING:
    from sandbox_service.runner.world import Agent, Candidate


JsonObject = dict[str, Any]

ENTRY = "sandbox_service.environments.harbor.box.verifier:serve"
MAX_ARCHIVE = 48 * 1024**2
"""Characters of the packed working directory; a larger one is not graded."""
_PIECE = 4 * 1024**2
"""Characters sent to the verifier at once; a multiple of four, so that each piece is base64."""
_SHELL_S = 60.0
_LEAST_S = 1.0
_MARGIN_S = 10.0
"""Kept of the evaluation's time, a tenth at most, for ending the tests and for the answer."""
_DONE = 1.0 - 1e-9
_SHOWN = 2000


def take_folders(agent: Agent) -> None:
    """Give the agent the task's folders. Raises WorldError where the box cannot have them."""
    done = agent.shell(take_place(agent.workspace), _SHELL_S)
    if done.exit_code != 0:
        detail = (
            "the box has no /app: tasks need a container, or a process box with namespaces "
            f"({done.output.strip()[:200]})"
        )
        raise WorldError(detail, BoxErrorCode.SANDBOX_FAILED)


def copy_work(agent: Agent) -> str | None:
    """Return the agent's working directory as base64 of a tar.gz; None when it is too large to be graded."""
    packed = agent.shell(pack(agent.workspace), _SHELL_S, MAX_ARCHIVE)
    if packed.exit_code != 0 and not packed.truncated:
        detail = "the working directory could not be copied"
        raise WorldError(f"{detail}: {packed.output[-200:]}", BoxErrorCode.GRADER_FAILED)
    return None if packed.truncated else packed.output


class Grader:
    """Grades the steps of one task."""

    def __init__(self, agent: Agent, task: JsonObject, grading: JsonObject, timeout_s: float) -> None:
        self._agent = agent
        self._task = task
        self._grading = grading
        self._deadline = time.monotonic() + timeout_s - min(_MARGIN_S, timeout_s / 10)

    def grade(self, works: list[str | None]) -> Verdict:
        """Grade the copies of the working directory, one for each step that was reached.

        Raises WorldError: grader_failed when tests end without a usable reward, deadline_exceeded when the
        evaluation has too little time for them.
        """
        steps = self._grading["steps"]
        rewards: list[dict[str, float]] = []
        shown: list[JsonObject] = []
        cut_short = False
        for index, step in enumerate(steps):
            work = works[index] if index < len(works) else None
            reached = index < len(works)
            if not reached or work is None:
                found, note = {"reward": 0.0}, "too large to be graded" if reached else "not reached"
            else:
                found, note = self._rewards(step, work), ""
            rewards.append(found)
            shown.append({"step": step["name"], "rewards": found, **({"note": note} if note else {})})
            if falls_short(found, step["min_reward"]) and index + 1 < len(steps):
                cut_short = True
                break
        try:
            total = combine(rewards, self._grading["strategy"])
            score = score_of(total)
        except RewardError as error:
            raise WorldError(str(error), BoxErrorCode.GRADER_FAILED) from None
        details: JsonObject = {"rewards": total}
        if len(steps) > 1:
            details |= {"steps": shown, "ended_by_min_reward": cut_short}
        elif "note" in shown[0]:
            details["note"] = shown[0]["note"]
        return Verdict(score, success=score >= _DONE, details=details)

    def _rewards(self, step: JsonObject, work: str) -> dict[str, float]:
        left_s = self._deadline - time.monotonic()
        if left_s < _LEAST_S:
            raise WorldError("too little time is left for the tests", BoxErrorCode.DEADLINE_EXCEEDED)
        with self._verifier() as verifier:
            try:
                self._fill(verifier, step, work)
                limit_s = min(float(step["timeout_s"]), max(_LEAST_S, self._deadline - time.monotonic()))
                env = {**self._task["env"], **step["env"]}
                answer = _ask(verifier, {"do": "run", "env": env, "timeout_s": limit_s}, limit_s + _MARGIN_S)
            except (EOFError, TimeoutError) as error:
                detail = f"the tests ended the verifier's process: {type(error).__name__}"
                raise WorldError(detail, BoxErrorCode.GRADER_FAILED) from None
        return _read(answer, step, limit_s)

    @contextmanager
    def _verifier(self) -> Iterator[Candidate]:
        """Start a verifier in the place of the agent, and give the place back afterwards."""
        # The link must be gone before the verifier makes its own: neither user can remove the other's.
        done = self._agent.shell(give_place(self._agent.workspace), _SHELL_S)
        if done.exit_code != 0:
            raise WorldError("the agent's folders could not be put aside", BoxErrorCode.GRADER_FAILED)
        verifier = self._agent.candidate(ENTRY)
        try:
            yield verifier
        finally:
            verifier.close()
            with contextlib.suppress(WorldError):
                take_folders(self._agent)

    def _fill(self, verifier: Candidate, step: JsonObject, work: str) -> None:
        if not _ask(verifier, {"do": "take_folders"})["reached"]:
            raise WorldError("the tests cannot reach /app", BoxErrorCode.SANDBOX_FAILED)
        apart = bool(step["separate"])
        if apart and self._task["image"]:
            _ask(verifier, {"do": "take_initial"})
        if apart:
            _ask(verifier, {"do": "write", "folder": "app", "files": self._task["files"]})
        for begin in range(0, max(1, len(work)), _PIECE):
            last = begin + _PIECE >= len(work)
            piece = work[begin : begin + _PIECE]
            _ask(verifier, {"do": "unpack", "data": piece, "last": last, "apart": apart})
        if apart:
            for artifact in step["artifacts"]:
                _ask(verifier, {"do": "take_artifact", "source": artifact, "target": artifact})
        _ask(verifier, {"do": "remove_links"})
        for files in _batches(step["files"]):
            _ask(verifier, {"do": "write", "folder": "tests", "files": files})


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


def _ask(verifier: Candidate, request: JsonObject, timeout_s: float = _SHELL_S) -> JsonObject:
    answer = verifier.request(request, timeout_s)
    if "error" in answer:
        raise WorldError(
            f"the verifier could not {request['do']}: {answer['error']}"[:300], BoxErrorCode.GRADER_FAILED
        )
    return answer


def _read(answer: JsonObject, step: JsonObject, limit_s: float) -> dict[str, float]:
    """Return the rewards of an answer. Raises WorldError(grader_failed) when there is none to be trusted."""
    output = f"; the end of their output: {str(answer.get('output'))[-_SHOWN:]!r}"
    code = answer.get("exit_code")
    if code is None:
        if limit_s < float(step["timeout_s"]):
            detail = f"the tests were not through within the {limit_s:.0f} s that the evaluation had for them"
            raise WorldError(detail, BoxErrorCode.DEADLINE_EXCEEDED)
        raise WorldError(f"the tests did not end within {limit_s:g} s{output}", BoxErrorCode.GRADER_FAILED)
    # Only what ran beside the tests kills them, and it could have written the reward as well.
    if not isinstance(code, int) or code < 0:
        raise WorldError(f"the tests were killed by signal {code}{output}", BoxErrorCode.GRADER_FAILED)
    if answer.get("ended") is not True:
        raise WorldError("a process that the tests started could not be ended", BoxErrorCode.GRADER_FAILED)
    try:
        return parse_rewards(_text(answer.get("reward_json")), _text(answer.get("reward_txt")))
    except RewardError as error:
        raise WorldError(f"{error}{output}", BoxErrorCode.GRADER_FAILED) from None


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
