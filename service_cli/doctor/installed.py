"""Versions of Python packages: those that are installed, and those that this product pins."""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib import metadata

_DISTRIBUTION = "training-sandbox"
_PIN = re.compile(r"([A-Za-z0-9._-]+)(?:\[[^\]]*\])?==([^;\s]+)")


def installed_version(name: str) -> str | None:
    """Return the version of an installed package; None if it is not installed."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def pinned_versions(extra: str) -> Mapping[str, str]:
    """Return the versions that an extra of this product pins, by package; empty if it is not installed."""
    try:
        requirements = metadata.requires(_DISTRIBUTION) or []
    except metadata.PackageNotFoundError:
        return {}
    return read_pins(requirements, extra)


def read_pins(requirements: list[str], extra: str) -> Mapping[str, str]:
    """Return the exact versions among requirements such as ``ray[serve]==2.60.0; extra == "service"``."""
    pins = {}
    for requirement in requirements:
        wanted, _, marker = requirement.partition(";")
        found = _PIN.match(wanted.strip())
        if found and re.search(rf"extra\s*==\s*['\"]{re.escape(extra)}['\"]", marker):
            pins[found[1]] = found[2]
    return pins
