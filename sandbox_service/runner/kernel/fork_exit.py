"""Run a function in a forked process and exit, without returning into the parent's frames."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import NoReturn


def run_and_exit(action: Callable[[], None]) -> NoReturn:
    """Run ``action`` and exit: 0, or 1 after an exception, which is shown on standard error."""
    code = 1
    try:
        action()
        code = 0
    except BaseException as error:  # noqa: BLE001  # nothing above this frame belongs to this process
        sys.__excepthook__(type(error), error, error.__traceback__)
    finally:
        os._exit(code)
