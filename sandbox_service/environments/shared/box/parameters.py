"""The message for a parameter of an episode that an environment does not have."""

from __future__ import annotations

from collections.abc import Sequence


def unknown_parameter(name: str, known: Sequence[str]) -> str:
    """Return the message for a parameter that is not one of the known ones."""
    if not known:
        return f"there is no parameter {name!r}: this environment takes no parameters"
    return f"there is no parameter {name!r}; there {'is' if len(known) == 1 else 'are'}: {', '.join(known)}"
