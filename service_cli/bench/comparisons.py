"""What an environment costs without us: its own package in a plain process, in the same run."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from .load import LoadError

if TYPE_CHECKING:
    from sandbox_service.environments.base import Provisions

    from .context import Figures


_SCRIPTS: Mapping[str, str] = MappingProxyType({"appworld": "plain_appworld.py"})
"""Environments whose package can be measured alone, and the script that does it."""
_WAIT_S = 180.0


def plain_process(environment: str, provisions: Provisions | None, worlds: int) -> dict[str, Any] | None:
    """The figures of so many worlds one after the other; None where there is nothing to compare with.

    Raises LoadError when the package does not work.
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
    figures: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return figures


def beside_plain(plain: Mapping[str, Any], mb_per_instance: float | None, create_p50_ms: float) -> Figures:
    """The plain figures, and how many of our instances they are."""
    figures: Figures = dict(plain)
    if mb_per_instance:
        figures["ratio_memory"] = plain["first_world_mb"] / mb_per_instance
    figures["ratio_create_to_first_world"] = plain["first_world_s"] * 1e3 / create_p50_ms
    if plain["later_world_s"] is not None:
        figures["ratio_create_to_later_world"] = plain["later_world_s"] * 1e3 / create_p50_ms
    return figures
