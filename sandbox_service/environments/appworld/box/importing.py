"""Makes AppWorld importable in a process that has no home and needs no notebook; to be imported before it.

The package looks for its user's home, and imports IPython for the notebook in which it would run the
agent's code. Here that runs elsewhere, and IPython would cost each box its memory.
"""

from __future__ import annotations

import os
import sys
import types

_UNUSED = {
    "IPython.core.interactiveshell": "ExecutionResult",
    "IPython.terminal.embed": "InteractiveShellEmbed",
    "IPython.utils.capture": "capture_output",
    "traitlets.config.loader": "Config",
}


def prepare_import() -> None:
    """Give AppWorld a home that is none, and put empty modules in the notebook's place."""
    os.environ.setdefault("HOME", "/nonexistent")
    os.environ["APPWORLD_CACHE"] = "/nonexistent"
    for path, name in _UNUSED.items():
        parts = path.split(".")
        for end in range(1, len(parts) + 1):
            sys.modules.setdefault(".".join(parts[:end]), types.ModuleType(".".join(parts[:end])))
        setattr(sys.modules[path], name, object)


prepare_import()
