"""Mutual proof that both ends of a stream know the cluster secret, without sending it.

    asker    HELLO  nonce a
    answerer REPLY  nonce b, HMAC(secret, "answerer", a, b)
    asker    HELLO  HMAC(secret, "asker", a, b)
    answerer REPLY

Fresh nonces make a recorded exchange worthless, and the role in the MAC keeps one end's proof from being
sent back as the other's. The frames that follow are not encrypted: between nodes on a network that is not
trusted, the addresses get a TLS context.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from typing import TYPE_CHECKING

from sandbox_contract.problems import ErrorCode
from sandbox_service.errors import ServiceError
from sandbox_service.wire.frames import Frame, FrameError, Op

if TYPE_CHECKING:
    from .channel import Channel, Handshake


_NONCE_BYTES = 32
_DOMAIN = b"sandbox-service stream 1"


def new_secret() -> str:
    """Return a new random cluster secret."""
    return secrets.token_hex(32)


def asker_handshake(secret: str) -> Handshake:
    """Return the client's half, which raises ServiceError(SUPERVISOR_UNAVAILABLE) on a wrong proof."""

    async def prove(channel: Channel) -> None:
        ours = secrets.token_bytes(_NONCE_BYTES)
        challenge = await channel.exchange(Frame(Op.HELLO, 1, "", {"nonce": ours.hex()}))
        # The server proves itself first: a client sends no proof to an impostor that could relay it.
        theirs = _nonce(challenge)
        if challenge.op is not Op.REPLY or not _proves(challenge, secret, b"answerer", ours, theirs):
            raise ServiceError(ErrorCode.SUPERVISOR_UNAVAILABLE, "the peer does not know the cluster secret")
        proof = _mac(secret, b"asker", ours, theirs)
        verdict = await channel.exchange(Frame(Op.HELLO, 2, "", {"proof": proof}))
        if verdict.op is not Op.REPLY:
            raise ServiceError(ErrorCode.SUPERVISOR_UNAVAILABLE, "the peer refused the cluster secret")

    return prove


def answerer_handshake(secret: str) -> Handshake:
    """Return the server's half, which answers a wrong proof with UNAUTHENTICATED and raises FrameError."""

    async def demand(channel: Channel) -> None:
        hello = await channel.receive()
        if hello.op is not Op.HELLO:
            raise FrameError(f"the first frame of a handshake must be HELLO, not {hello.op.name}")
        theirs = _nonce(hello)
        ours = secrets.token_bytes(_NONCE_BYTES)
        mac = _mac(secret, b"answerer", theirs, ours)
        proof = await channel.exchange(hello.reply(meta={"nonce": ours.hex(), "proof": mac}))
        # Compared in constant time in _proves; the answer does not say which part of the proof was wrong.
        if proof.op is not Op.HELLO or not _proves(proof, secret, b"asker", theirs, ours):
            channel.send(proof.error(ErrorCode.UNAUTHENTICATED.value, "wrong cluster secret"))
            raise FrameError("the peer does not know the cluster secret")
        channel.send(proof.reply())

    return demand


def _nonce(frame: Frame) -> bytes:
    try:
        nonce = bytes.fromhex(_text(frame, "nonce"))
    except ValueError:
        nonce = b""
    if len(nonce) != _NONCE_BYTES:
        raise FrameError(f"the handshake carries no nonce of {_NONCE_BYTES} bytes")
    return nonce


def _mac(secret: str, role: bytes, asker_nonce: bytes, answerer_nonce: bytes) -> str:
    # Every part but the role has a fixed length, and no role is the beginning of another.
    message = b"|".join((_DOMAIN, role, asker_nonce + answerer_nonce))
    return hmac.new(secret.encode(), message, hashlib.sha256).hexdigest()


def _proves(frame: Frame, secret: str, role: bytes, asker_nonce: bytes, answerer_nonce: bytes) -> bool:
    return hmac.compare_digest(_text(frame, "proof"), _mac(secret, role, asker_nonce, answerer_nonce))


def _text(frame: Frame, name: str) -> str:
    """Return an entry of meta, empty unless it is ASCII: JSON may have half of a surrogate pair."""
    value = frame.meta.get(name)
    return value if isinstance(value, str) and value.isascii() else ""
