"""The text of an error that code of others raised: its own ``__str__`` may raise in turn."""

from __future__ import annotations


def error_text(error: BaseException) -> str:
    """Return an error's type and message, or its type alone where its message is unavailable."""
    kind = type(error).__name__
    try:
        return f"{kind}: {error}"
    except Exception as broken:  # noqa: BLE001 - the first error is to be reported, whatever its class does
        return f"{kind} (its message is unavailable: str() raised {type(broken).__name__})"
