"""The process for large bodies: ``python -m sandbox_service.gateway.work_main DESCRIPTOR``.

Reads pickled functions from the descriptor, which the gateway alone writes to, and answers with what they
return or raise. Ends when the gateway is gone.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import socket
import sys

from .work_messages import receive, send

_NICENESS = 5
"""Below the gateway and its neighbours: what is large waits for what is small, not the other way round."""


def main(descriptor: int) -> None:
    """Work until the other end hangs up."""
    # An interrupt at the terminal reaches the whole group; the gateway decides when this process ends.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.nice(_NICENESS)
    with socket.socket(fileno=descriptor) as connection, contextlib.suppress(EOFError, ConnectionError):
        while True:
            send(connection, _done(receive(connection)))


def _done(work: bytearray) -> bytes:
    failed, result = False, None
    try:
        function, arguments = pickle.loads(work)
        result = function(*arguments)
    except Exception as error:  # noqa: BLE001 - capture point: the gateway raises it again
        failed, result = True, error
    return pickle.dumps((failed, result), protocol=pickle.HIGHEST_PROTOCOL)


if __name__ == "__main__":
    main(int(sys.argv[1]))
