"""Connections that agents in a box make to a model endpoint, carried as frames between runner and service.

    runner    CONNECTION_OPEN     a connection begins; the request id is its number, used once in a box
    both      CONNECTION_DATA     bytes of it
    both      CONNECTION_CREDIT   ``bytes`` more may be sent: as many have reached the other side's socket
    both      CONNECTION_CLOSE    it is over; the receiver sends what it has, and closes its socket

None of them is answered. A sender stops when the bytes without credit come to ``WINDOW``, so that neither end
ever holds more of a connection in each direction.
"""

from __future__ import annotations

from .frames import Frame, Op

WINDOW = 64 * 1024
"""Bytes of one direction of a connection that may be under way."""
CHUNK = 16 * 1024
"""Most bytes in one frame: the frames of other instances pass between them."""
MOST_CONNECTIONS = 64
"""Connections of one agent at a time; the next one waits to be accepted."""

OPS = frozenset({Op.CONNECTION_OPEN, Op.CONNECTION_DATA, Op.CONNECTION_CREDIT, Op.CONNECTION_CLOSE})


def data(instance_id: str, number: int, content: bytes) -> Frame:
    """Return the frame that carries bytes of a connection."""
    return Frame(Op.CONNECTION_DATA, number, instance_id, {}, content)


def credit(instance_id: str, number: int, amount: int) -> Frame:
    """Return the frame that allows the other end to send more."""
    return Frame(Op.CONNECTION_CREDIT, number, instance_id, {"bytes": amount})


def opened(instance_id: str, number: int) -> Frame:
    """Return the frame that begins a connection."""
    return Frame(Op.CONNECTION_OPEN, number, instance_id)


def closed(instance_id: str, number: int) -> Frame:
    """Return the frame that ends a connection."""
    return Frame(Op.CONNECTION_CLOSE, number, instance_id)


def credited(frame: Frame) -> int:
    """Return how many bytes a credit allows; 0 for nonsense."""
    amount = frame.meta.get("bytes")
    return amount if type(amount) is int and 0 < amount <= WINDOW else 0
