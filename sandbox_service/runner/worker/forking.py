"""Fork an instance that has a worker of its own: copy the process, the workspace and the agent's session.

The worker's copy becomes the zygote's child; meanwhile the launcher copies the workspace and the agent's
session forks itself. The source waits for all of it, the copy for its first frame.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from sandbox_service.runner.kernel.fork_sibling import fork_sibling
from sandbox_service.wire.codes import BoxErrorCode

from .episode import Refusal, world_timeout_s

if TYPE_CHECKING:
    import socket

    from sandbox_service.wire.frames import Frame

    from .agent import RunnerAgent
    from .episode import WorldEpisode
    from .session_client import SessionClient


def _begin(agent: RunnerAgent, serial: int) -> SessionClient | None:
    try:
        return agent.begin_copy(serial)
    except OSError as error:
        raise Refusal(BoxErrorCode.FORK_FAILED, f"the agent's side cannot be copied: {error}") from None


def copy_process(
    frame: Frame, source: WorldEpisode, end: socket.socket, control: socket.socket | None
) -> int | None:
    """Copy this process and the instance in it: the copy's pid, and None in the copy.

    Raises Refusal when the agent's side cannot be copied; the runner ends the half-made copy then.
    """
    agent = source.agent
    serial, workspace = int(frame.meta.get("serial", 0)), str(frame.meta.get("workspace", ""))
    deadline = time.monotonic() + world_timeout_s(frame)
    # The slow copies are under way first: of workspace and session, by other processes, while this one forks.
    session = None if agent is None else _begin(agent, serial)
    pid, failure = -1, ""
    try:
        pid = fork_sibling()
    except OSError as error:
        failure = str(error)
    if pid == 0:
        if agent is not None and control is not None:
            agent.become_copy(control, workspace, session)
        return None
    # The copy's sockets, of which the source holds duplicates: the far ends see the copy hang up only when it
    # alone has them.
    end.close()
    if agent is not None and control is not None:
        control.close()
        _finish(agent, (serial, workspace), session, deadline)
    if pid < 0:
        raise Refusal(BoxErrorCode.FORK_FAILED, f"no process could be made for the copy: {failure}")
    return pid


def _finish(
    agent: RunnerAgent, target: tuple[int, str], session: SessionClient | None, deadline: float
) -> None:
    try:
        agent.finish_copy(*target, session, deadline)
    except OSError as error:
        raise Refusal(BoxErrorCode.FORK_FAILED, f"the agent's side cannot be copied: {error}") from None
    finally:
        if session is not None:
            session.close()
