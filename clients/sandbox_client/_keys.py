"""Idempotency keys of requests, and whose they are."""

from __future__ import annotations

import secrets
from typing import TypeAlias

from sandbox_contract.episodes import (
    CreateInstanceRequest,
    EvaluateRequest,
    ForkInstanceRequest,
    ReleaseInstanceRequest,
    StepRequest,
)

__all__ = ["Keyed", "is_named", "keyed", "new_key"]

Keyed: TypeAlias = (
    CreateInstanceRequest | StepRequest | EvaluateRequest | ReleaseInstanceRequest | ForkInstanceRequest
)


def new_key() -> str:
    """Return a fresh idempotency key."""
    return secrets.token_hex(16)


def keyed(request: Keyed) -> Keyed:
    """Return the request with an idempotency key."""
    if request.idempotency_key is not None:
        return request
    return request.model_copy(update={"idempotency_key": new_key()})


def is_named(request: Keyed) -> bool:
    """Return whether the caller chose a key or an id, by which the outcome is found without the answer."""
    chosen = request.instance_id if isinstance(request, CreateInstanceRequest) else None
    return request.idempotency_key is not None or chosen is not None
