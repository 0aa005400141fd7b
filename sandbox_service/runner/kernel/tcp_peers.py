"""Find the user id behind a TCP connection over loopback. Standard library only."""

from __future__ import annotations

import socket
import sys

_TABLE = "/proc/self/net/tcp"
_LOCAL, _REMOTE, _UID = 1, 2, 7

Address = tuple[str, int]


def uid_of_peer(peer: Address, own: Address) -> int | None:
    """Return the user id that owns the other end of a connection in this network; None if there is none.

    A socket that its process has closed already belongs to root, so that the caller must refuse what it
    does not expect.
    """
    # TCP has no SO_PEERCRED; the table of sockets names their owners.
    wanted = (_in_table(peer), _in_table(own))
    try:
        with open(_TABLE, encoding="ascii") as table:  # noqa: PTH123
            for line in table:
                fields = line.split(None, _UID + 1)
                if (fields[_LOCAL], fields[_REMOTE]) == wanted:
                    return int(fields[_UID])
    except (OSError, ValueError, IndexError):
        return None
    return None


def _in_table(address: Address) -> str:
    """Return an address as the kernel prints it: four bytes as one number of the machine, and the port."""
    host = int.from_bytes(socket.inet_aton(address[0]), sys.byteorder)
    return f"{host:08X}:{address[1]:04X}"
