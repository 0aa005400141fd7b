"""How much memory each process of the box holds, as far as the kernel tells the runner."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from .processes import descendants, memory, snapshot

if TYPE_CHECKING:
    from .channel import Message

__all__ = ["describe_processes"]


def describe_processes(roles: dict[int, str]) -> list[Message]:
    """The runner and everything below it; ``roles`` names those that are known."""
    known = {os.getpid(): "runner"} | roles
    pids = sorted(descendants(snapshot(), [os.getpid()]))
    return [{"pid": pid, "role": known.get(pid, "agent"), **memory(pid)} for pid in pids]
