"""A candidate process: runs ``module:function`` for a grader, under a user id that nothing else has.

It is about to run what an agent wrote, so it holds one descriptor and knows nothing but what it is sent.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import sys
from typing import TYPE_CHECKING

from sandbox_service.runner.io.packets import receive_packet, send_packet

if TYPE_CHECKING:
    import socket

    from sandbox_service.wire.json_types import JsonObject


_OURS = "sandbox_service.environments."


def load_ahead(entry: str) -> None:
    """Import the module that candidates run, once for all candidates, where it belongs to the service.

    The process that forks them has privileges, so that nothing else may be imported in it.
    """
    module = entry.partition(":")[0]
    if module.startswith(_OURS) and module not in sys.modules:
        # A module that is missing costs the candidate that asks for it, not the process that forks them all.
        with contextlib.suppress(ImportError):
            importlib.import_module(module)
        gc.collect()
        gc.freeze()


def serve_candidate(control: socket.socket, entry: str) -> None:
    """Call the function with ``receive`` and ``send``; at the end ``receive`` raises EOFError."""

    def receive() -> JsonObject:
        return receive_packet(control)[0]

    def send(message: JsonObject) -> None:
        send_packet(control, message)

    module, _, function = entry.partition(":")
    getattr(importlib.import_module(module), function)(receive, send)
