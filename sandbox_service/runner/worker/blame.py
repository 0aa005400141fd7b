"""The cause of a world's exception: the machine, the task or the agent.

A trainer drops the episode for the first two, so an agent must not be able to cause them. An exception proves
that a task is at fault if nothing has been done in the episode yet, or if grading fails in the same way where
an agent did nothing harmful; without that proof it counts as what the agent did.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from sandbox_service.runner.kernel.forked_copy import forked_copy
from sandbox_service.runner.messages.codec import MessageError
from sandbox_service.runner.world import WorldError

from .cpu_budget import OverBudget

if TYPE_CHECKING:
    from sandbox_service.runner.world import JsonObject, World

_MACHINE = (OSError, EOFError, MemoryError, MessageError)
_MOST_PROOF_S = 10.0
"""Time for a proof, in which the worker does nothing else."""
_AT_FAULT = b"1"


def is_of_machine(error: BaseException) -> bool:
    """Return whether the machine, or what an agent did to it, raised this: it is neither score nor proof."""
    if isinstance(error, RuntimeError):
        return str(error) == "can't start new thread"
    if isinstance(error, _MACHINE):
        return True
    # Not imported here, since it brings threading into each fork: a world that can raise it has loaded it.
    processes = sys.modules.get("subprocess")
    return processes is not None and isinstance(error, processes.SubprocessError)


def report(error: BaseException) -> None:
    """Write the traceback to the box's log, for the operator."""
    # Not sys.excepthook, which packages replace.
    sys.__excepthook__(type(error), error, error.__traceback__)


def check_number(number: float) -> float:
    """Return a reward or a score as a float. Raises ValueError and TypeError for what is no finite number."""
    number = float(number)
    if not math.isfinite(number):
        raise ValueError(f"the environment gave {number}")
    return number


def task_is_at_fault(
    world: World, task: JsonObject, grade: Callable[[World], object], deadline: float
) -> bool:
    """Return whether ``grade`` raises, too, for worlds of the same task without what the agent did.

    ``task`` is as it was created, which the episode's world may have changed; ``deadline`` is a time of
    ``time.monotonic``. A proof that is not complete by then proves nothing.
    """
    deadline = min(deadline, time.monotonic() + _MOST_PROOF_S)
    if time.monotonic() >= deadline:
        # On a busy machine a copy could still answer before this process asks.
        return False

    def prove(send: Callable[[bytes], object]) -> None:
        try:
            failures = [_fails(untouched, grade) for untouched in world.untouched(task)]
            send(_AT_FAULT if failures and all(failures) else b"0")
        except BaseException as error:  # noqa: BLE001  # the capture point of foreign code: a world may raise anything
            report(error)

    # In a copy of the process: opening a world may change what all worlds of a process share.
    with forked_copy(prove) as copy:
        return copy.read(deadline - time.monotonic()) == _AT_FAULT


def _fails(untouched: World, grade: Callable[[World], object]) -> bool:
    """Return whether grading raises what only the task or its grader can be the cause of."""
    try:
        grade(untouched)
    except WorldError:
        # The world could not grade for a reason that it names, which is not the failure in question.
        return False
    except (Exception, OverBudget, SystemExit) as error:  # noqa: BLE001  # as above
        report(error)
        return not is_of_machine(error)
    return False
