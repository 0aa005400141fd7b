"""The fork verb in a worker of one instance: the process is the copy, and so is the agent's session.

The worker forks twice, so that the copy becomes the zygote's child; meanwhile the launcher copies the
workspace and the agent's session forks itself. The source waits for all of it, the copy for its first frame.
"""

from __future__ import annotations

import os
import struct
import time
from typing import TYPE_CHECKING

from .episode import Refusal, patience

if TYPE_CHECKING:
    import socket

    from .agent import BoxAgent
    from .episode import Episode
    from .frames import Frame
    from .session_end import SessionEnd

__all__ = ["copy_process"]

_PID = struct.Struct("=i")


def _begin(agent: BoxAgent, serial: int) -> SessionEnd | None:
    try:
        return agent.begin_copy(serial)
    except OSError as error:
        raise Refusal("fork_unsupported", f"the agent's side cannot be copied: {error}") from None


def copy_process(
    frame: Frame, source: Episode, end: socket.socket, control: socket.socket | None
) -> int | None:
    """Copy this process and the instance in it: the copy's pid, and None in the copy.

    Raises Refusal when the agent's side cannot be copied; the runner ends the half-made copy then.
    """
    agent = source.agent
    serial, workspace = int(frame.meta.get("serial", 0)), str(frame.meta.get("workspace", ""))
    deadline = time.monotonic() + patience(frame)
    session = None if agent is None else _begin(agent, serial)
    reading, writing = os.pipe()
    middle = os.fork()
    if middle == 0:
        # Neither an error nor the middle process itself may reach the loop that this was called from.
        copy = _fork_or_leave()
        if copy:
            os.write(writing, _PID.pack(copy))
            os._exit(0)
        os.close(reading)
        os.close(writing)
        if agent is not None and control is not None:
            agent.become_copy(control, workspace, session)
        return None
    os.close(writing)
    end.close()
    try:
        if agent is not None and control is not None:
            control.close()
            _finish(agent, (serial, workspace), session, deadline)
    finally:
        pid = _pid_of_copy(middle, reading)
    return pid


def _finish(agent: BoxAgent, target: tuple[int, str], session: SessionEnd | None, deadline: float) -> None:
    try:
        agent.finish_copy(*target, session, deadline)
    except OSError as error:
        raise Refusal("fork_unsupported", f"the agent's side cannot be copied: {error}") from None
    finally:
        if session is not None:
            session.close()


def _pid_of_copy(middle: int, reading: int) -> int:
    """What the middle process has told; once it has ended, the copy is the zygote's child."""
    told = os.read(reading, _PID.size)
    os.close(reading)
    os.waitpid(middle, 0)
    if len(told) < _PID.size:
        raise Refusal("fork_unsupported", "no process could be made for the copy")
    (pid,) = _PID.unpack(told)
    return int(pid)


def _fork_or_leave() -> int:
    try:
        return os.fork()
    except OSError:
        os._exit(1)
