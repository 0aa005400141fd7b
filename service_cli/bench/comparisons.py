"""Compare an environment with its own package in a plain process, measured in the same run."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, TypedDict

from .load import LoadError

if TYPE_CHECKING:
    from sandbox_service.environments.base import Provisions

    from .context import Figures


class PlainFigures(TypedDict):
    """Figures of a package in a plain process, as its script prints them: seconds and megabytes."""

    import_s: float
    import_mb: float
    first_world_s: float
    first_world_mb: float
    later_world_s: float | None


_SCRIPTS: Mapping[str, str] = MappingProxyType({"appworld": "plain_appworld.py"})
"""Environments whose package can be measured alone, and the script for it."""
_WAIT_S = 180.0


def plain_process(environment: str, provisions: Provisions | None, worlds: int) -> PlainFigures | None:
    """Return the figures of ``worlds`` consecutive worlds, None if there is nothing to compare with.

    Raises LoadError if the package does not work.
    """
    if environment not in _SCRIPTS or provisions is None:
        return None
    script = Path(__file__).with_name(_SCRIPTS[environment])
    places = [str(provisions.packages), str(provisions.data), str(worlds)]
    command = [sys.executable, "-I", "-S", str(script), *places]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_WAIT_S, check=False)
    except subprocess.TimeoutExpired:
        raise LoadError(f"a plain process of {environment} took longer than {_WAIT_S:g} s") from None
    if done.returncode:
        raise LoadError(f"a plain process of {environment} failed: {done.stderr[-500:]}")
    figures: PlainFigures = json.loads(done.stdout.splitlines()[-1])
    return figures


def beside_plain(plain: PlainFigures, mb_per_instance: float | None, create_p50_ms: float) -> Figures:
    """Return the plain figures, and their ratios to those of an instance."""
    figures: Figures = dict(plain)
    if mb_per_instance:
        figures["ratio_memory"] = plain["first_world_mb"] / mb_per_instance
    figures["ratio_create_to_first_world"] = plain["first_world_s"] * 1e3 / create_p50_ms
    if plain["later_world_s"] is not None:
        figures["ratio_create_to_later_world"] = plain["later_world_s"] * 1e3 / create_p50_ms
    return figures
