"""A candidate process: runs ``module:function`` for a grader, under a user id that nothing else has.

It is about to run what an agent wrote, so it holds one descriptor and knows nothing but what it is sent.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from .packets import JsonObject, receive_packet, send_packet

if TYPE_CHECKING:
    import socket

__all__ = ["serve_candidate"]


def serve_candidate(control: socket.socket, entry: str) -> None:
    """Call the function with ``receive`` and ``send``; at the end ``receive`` raises EOFError."""

    def receive() -> JsonObject:
        return receive_packet(control)[0]

    def send(message: JsonObject) -> None:
        send_packet(control, message)

    module, _, function = entry.partition(":")
    getattr(importlib.import_module(module), function)(receive, send)
