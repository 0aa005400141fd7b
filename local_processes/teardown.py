"""Runs the steps that take a service down, unless the cluster that they talk to is gone.

Calls to a dead cluster wait for minutes and then end the process. A cluster dies before its service when
a signal goes to all processes at once, as systemd sends it; what is left then is killed as processes.
"""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["take_down"]

_LOOK_S = 0.2

logger = logging.getLogger(__name__)


def take_down(steps: Sequence[Callable[[], object]], alive: Callable[[], bool]) -> bool:
    """Run the steps one after the other, each even if one before it failed; False when the cluster died.

    The first failure is raised at the end.
    """
    failures: list[Exception] = []

    def run() -> None:
        for step in steps:
            try:
                step()
            except Exception as error:  # noqa: BLE001 - the next step must run; the failure is raised below
                failures.append(error)

    thread = threading.Thread(target=run, name="take down", daemon=True)
    thread.start()
    while thread.is_alive():
        if not alive():
            logger.warning("the cluster ended before the service; killing what is left")
            return False
        thread.join(_LOOK_S)
    if failures:
        raise failures[0]
    return True
