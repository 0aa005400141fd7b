"""Graders: a submission and ground truth in, a verdict out.

Ground truth arrives with the evaluation and is kept nowhere. The details of a verdict say how far a
submission came, never what was expected. Standard library only.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sandbox_service.runner.world import Verdict, WorldError

from .answers import exact, numeric, picks, rouge_l, token_f1
from .tools import MAX_ANSWER_BYTES
from .trials import HiddenTest, Result, run_test

if TYPE_CHECKING:
    from collections.abc import Callable

    from sandbox_service.runner.world import Agent

__all__ = ["MAX_SOLUTION_BYTES", "Submission", "collect", "grade"]

JsonObject = dict[str, Any]

MAX_SOLUTION_BYTES = 256 * 1024
"""Largest solution file that is graded."""
_TESTS_BUDGET_S = 60.0
"""Time for all hidden tests of one evaluation; those that it does not cover count as timed out."""


@dataclass(frozen=True, slots=True)
class Submission:
    """What the agent left behind, copied."""

    answer: str | None
    """The answer given with submit."""
    artifact: bytes | None = None
    """The content of the file in which the answer, or the solution, is looked for."""
    missing: str = ""
    """Why there is no artifact."""


def collect(agent: Agent, answer: str | None, path: str, *, tested: bool) -> Submission:
    """Copy what is to be graded. Raises OSError when the sandbox fails, not for the state of the file."""
    if not tested and answer is not None and answer.strip():
        return Submission(answer)
    cap = MAX_SOLUTION_BYTES if tested else MAX_ANSWER_BYTES
    try:
        data = agent.read_file(path, cap + 1)
    except FileNotFoundError:
        return Submission(answer, missing="missing")
    except ValueError:
        return Submission(answer, missing="unreadable")
    except OSError as error:
        if error.errno is None:
            raise
        return Submission(answer, missing="unreadable")
    if len(data) > cap:
        return Submission(answer, missing="too_large")
    return Submission(answer, data)


def grade(agent: Agent, submission: Submission, grading: JsonObject) -> Verdict:
    """Grade a submission. Raises WorldError(grader_failed) when the ground truth makes no sense."""
    try:
        if grading["kind"] == "tests":
            return _tested(agent, submission, grading)
        check = _CHECKS[grading["kind"]]
        answer, missing = _answer(submission)
        if answer is None:
            return Verdict(0.0, success=False, details={"reason": missing})
        score = check(answer, grading)
    except (KeyError, TypeError) as error:
        raise WorldError(f"the task's grader is malformed: {error!r}", "grader_failed") from None
    return Verdict(score, score >= grading.get("threshold", 1.0), {"kind": grading["kind"]})


def _answer(submission: Submission) -> tuple[str | None, str]:
    """The submitted answer, else the answer file; an empty one counts as none."""
    text = submission.answer
    if text is None or not text.strip():
        if submission.artifact is None:
            return None, submission.missing
        text = submission.artifact.decode(errors="replace")
    return (text, "") if text.strip() else (None, "empty")


def _rouge(answer: str, grading: JsonObject) -> float:
    score = rouge_l(answer, grading["answers"])
    return score if grading["graded"] else float(score >= grading["threshold"])


def _number(answer: str, grading: JsonObject) -> float:
    tolerances = {"rel_tol": grading["rel_tol"], "abs_tol": grading["abs_tol"]}
    return float(numeric(answer, grading["answer"], **tolerances))


_CHECKS: dict[str, Callable[[str, JsonObject], float]] = {
    "exact": lambda answer, grading: float(
        exact(answer, grading["answers"], ignore_case=grading["ignore_case"])
    ),
    "numeric": _number,
    "choice": lambda answer, grading: picks(answer, set(grading["answers"])),
    "f1": lambda answer, grading: token_f1(answer, grading["answers"]),
    "rouge_l": _rouge,
}


def _tested(agent: Agent, submission: Submission, grading: JsonObject) -> Verdict:
    tests = [
        HiddenTest(
            code,
            tuple(grading["names"]),
            grading["setup"],
            float(grading["timeout_s"]),
            write_back=grading["write_back"],
        )
        for code in grading["tests"]
    ]
    if submission.artifact is None:
        details = {"reason": submission.missing, "passed": 0, "total": len(tests)}
        return Verdict(0.0, success=False, details=details)
    source = submission.artifact.decode(errors="replace")
    deadline = time.monotonic() + _TESTS_BUDGET_S
    results = [
        run_test(agent, source, test) if time.monotonic() < deadline else Result.TIMEOUT for test in tests
    ]
    passed = results.count(Result.PASSED)
    details = {
        "kind": "tests",
        "passed": passed,
        "total": len(tests),
        "results": [str(item) for item in results],
    }
    return Verdict(passed / len(tests), passed == len(tests), details)
