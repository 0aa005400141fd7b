"""The cause of a world's exception: the machine, the task or the agent.

A trainer drops the episode for the first two, so an agent must not be able to cause them. An exception proves
that a task is at fault if nothing has been done in the episode yet, or if grading fails in the same way where
an agent did nothing harmful; without that proof it counts as what the agent did.
"""

from __future__ import annotations

import math
import sys
import time
from typing import TYPE_CHECKING

from sandbox_service.runner.messages.codec import MessageError
from sandbox_service.runner.world import WorldError

from .cpu_budget import OverBudget, cpu_budget

if TYPE_CHECKING:
    from sandbox_service.runner.world import JsonObject, World

_MACHINE = (OSError, EOFError, MemoryError, MessageError)
_LEAST_PROOF_S = 0.1


def is_of_machine(error: BaseException) -> bool:
    """Return whether the machine, or what an agent did to it, raised this: it is neither score nor proof."""
    if isinstance(error, RuntimeError):
        return "new thread" in str(error)
    if isinstance(error, _MACHINE):
        return True
    # Not imported here, since it brings threading into each fork: a world that can raise it has loaded it.
    processes = sys.modules.get("subprocess")
    return processes is not None and isinstance(error, processes.SubprocessError)


def report(error: BaseException) -> None:
    """Write the traceback to the box's log, for the operator."""
    # Not sys.excepthook, which packages replace.
    sys.__excepthook__(type(error), error, error.__traceback__)


def task_is_at_fault(world: World, params: JsonObject, grading: JsonObject, deadline: float) -> bool:
    """Return whether grading fails, too, for the same task without what the agent did.

    ``deadline`` is a time of ``time.monotonic``. A proof that is not complete by then proves nothing.
    """
    left_s = deadline - time.monotonic()
    if left_s < _LEAST_PROOF_S:
        return False
    failures = 0
    try:
        with cpu_budget(left_s):
            for untouched in world.untouched():
                if not _fails(untouched, params, grading, deadline):
                    return False
                failures += 1
    except OverBudget:
        return False
    except Exception as error:  # noqa: BLE001  # the capture point of foreign code: a world may raise anything
        report(error)
        return False
    return failures > 0


def _fails(untouched: World, params: JsonObject, grading: JsonObject, deadline: float) -> bool:
    """Return whether grading raises what only the task or its grader can be the cause of."""
    untouched.evaluate_timeout_s = max(0.0, deadline - time.monotonic())
    try:
        verdict = untouched.evaluate(params, grading)
        # What is no number fails as it does in an answer.
        check_number(verdict.score)
    except (WorldError, RecursionError):
        # The world could not grade for a reason that it names, which is not the failure in question.
        return False
    except Exception as error:  # noqa: BLE001  # as above
        report(error)
        return not is_of_machine(error)
    finally:
        untouched.close()
    return False


def check_number(number: float) -> float:
    """Return a reward or a score as a float. Raises ValueError and TypeError for what is no finite number."""
    number = float(number)
    if not math.isfinite(number):
        raise ValueError(f"the environment gave {number}")
    return number
