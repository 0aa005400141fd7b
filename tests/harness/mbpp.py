"""Choose the MBPP tasks of a test run: every twelfth, or all, which take minutes, when asked for."""

import os
from collections.abc import Sequence

_STRIDE = 12


def chosen(task_ids: Sequence[str]) -> Sequence[str]:
    """A fixed sample, or everything with ``SANDBOX_MBPP_FULL=1``."""
    return task_ids if os.environ.get("SANDBOX_MBPP_FULL") == "1" else task_ids[::_STRIDE]
