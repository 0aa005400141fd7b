"""The program of a work process: ``python -m local_processes.work_main DESCRIPTOR``.

Reads pickled functions from the descriptor, which the owner alone writes to, and answers with what they
return or raise. Ends when the owner is gone.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys

from .work_messages import WorkMessage, receive, send

_NICENESS = 5
"""Below the owner and its neighbours: what is large waits for what is small, not the other way round."""


def main(descriptor: int) -> None:
    """Work until the other end hangs up."""
    # An interrupt at the terminal reaches the whole group; the owner decides when this process ends.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.nice(_NICENESS)
    with socket.socket(fileno=descriptor) as connection, contextlib.suppress(EOFError, ConnectionError):
        while True:
            send(connection, _done(receive(connection)))


def _done(work: WorkMessage) -> WorkMessage:
    failed, result = False, None
    try:
        function, arguments = work.load()
        result = function(*arguments)
    except Exception as error:  # noqa: BLE001 - capture point: the owner raises it again
        failed, result = True, error
    return WorkMessage.of((failed, result))


if __name__ == "__main__":
    main(int(sys.argv[1]))
