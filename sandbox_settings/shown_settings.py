"""Settings as a page shows them: by their full names, and without what may be a secret.

Whoever may see a run need not know its passwords, and settings hold them in several places: in addresses, in
options that are texts, in variables and command lines of agents. What looks like one is hidden, too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping

HIDDEN = "not shown"
"""Stands for a whole value."""
_MARK = "***"
"""Stands for a part of a value."""
_WHOLE = re.compile(r"(?:^|\.)environment\.|^agent\.command$")
"""Variables of agents, and the command of one, which may have a key among its words."""
_SECRET = (
    r"(?:api[_-]?keys|key|token|passw(?:or)?d|passphrase|secret|credentials?"
    r"|(?:\b|_)(?:pass|pwd|sig|signature))"
)
"""Ends of names whose values are secrets."""
_NAME = re.compile(rf".*{_SECRET}", re.IGNORECASE)
_USER = re.compile(r"(?<=://)(?:[^/\s:]*:\S*|[^/\s]*)@")
"""User and password of an address; a password may have any character, also ``@`` and ``/``."""
_OPTION = re.compile(rf"""((?:^|[?&;,\s"'{{])[\w.-]{{0,100}}{_SECRET}(?:=|["']\s*:))[^&#]*""", re.IGNORECASE)
"""A part of a query, or an option such as ``--api-key=...``."""
_KEYS = re.compile(r"(?<=api_keys)[.\[].*", re.DOTALL)
"""The service's keys are names of settings."""


def flat_settings(tree: Mapping[str, object], prefix: str = "") -> Iterator[tuple[str, object]]:
    """Yield all settings with their full names."""
    for name, value in tree.items():
        if isinstance(value, dict) and value:
            yield from flat_settings(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def text_of(value: object) -> str:
    """Return a setting's value as it is written."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def shown_value(name: str, value: object) -> str:
    """Return a setting's value without what may be a secret."""
    return text_of(without_secrets(name, value))


def without_secrets(name: str, value: object) -> object:
    """Return the value of the setting with that full name, with marks where it may hold a secret."""
    in_short = name == "agent" and isinstance(value, list)
    if in_short or _WHOLE.search(name) or _NAME.fullmatch(name):
        return HIDDEN
    if isinstance(value, dict):
        return {key: without_secrets(f"{name}.{key}", each) for key, each in value.items()}
    if isinstance(value, list):
        return [without_secrets(name, each) for each in value]
    if isinstance(value, str):
        return _KEYS.sub(_MARK, _OPTION.sub(rf"\1{_MARK}", _USER.sub(f"{_MARK}@", value)))
    return value
