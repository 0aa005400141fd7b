"""Real boxes for hostile code, with small limits; and the report of the attacks from one box of each kind."""

from __future__ import annotations

import asyncio
import json
import secrets
import shutil
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

from sandbox_service.config import LimitsConfig
from sandbox_service.sandboxes.factory import open_factory
from tests.harness.boxes import PROBE, episode, sandbox_config

if TYPE_CHECKING:
    from sandbox_service.sandboxes.base import Sandbox

_T = TypeVar("_T")
STATE_DIR_PREFIX = "abuse-"
LIMITS = LimitsConfig(memory_mib=256, pids=64, workspace_mib=24, workspace_inodes=500)
_LONGEST_S = 150.0
"""A process box sees the machine's files, and a disk may take half a minute to list a million of them."""
_ATTACKS = Path(__file__).parents[1] / "abuse" / "box_attacks.py"


def reachable_folder() -> Path:
    """Return a new folder that other user ids can enter."""
    folder = Path(tempfile.mkdtemp(prefix=STATE_DIR_PREFIX))
    folder.chmod(0o711)
    return folder


def in_a_box(kind: str, actions: Callable[[Sandbox], Awaitable[_T]], secret: Sequence[Path] = ()) -> _T:
    """Return what ``actions`` on a fresh box return; skip where process boxes lack a protection."""
    return asyncio.run(_in_a_box(kind, actions, secret))


async def _in_a_box(kind: str, actions: Callable[[Sandbox], Awaitable[_T]], secret: Sequence[Path]) -> _T:
    state_dir = reachable_folder()
    config = sandbox_config(kind, state_dir=state_dir, limits=LIMITS)
    factory = await open_factory(config, f"abuse{secrets.token_hex(4)}", secret=secret)
    try:
        box = await factory.start(PROBE, lambda _: None, lambda _: None)
        # Of gVisor's, control groups bound the whole box, which these attacks do not need.
        missing = [name for name, on in factory.protections().items() if not on] if kind == "process" else []
        try:
            if missing:
                pytest.skip(f"not here: {', '.join(missing)}")
            return await actions(box)
        finally:
            await box.destroy()
    finally:
        await factory.close()
        shutil.rmtree(state_dir)


@cache
def attack_report(kind: str) -> dict[str, Any]:
    """Return the report of the attacks from one instance, whose box and neighbour live on after them."""

    async def attack(box: Sandbox) -> dict[str, Any]:
        one, two = await episode(box, name="one"), await episode(box, name="two")
        execution = await one.run(_LONGEST_S, python=_ATTACKS.read_text(), timeout=_LONGEST_S)
        assert (await one.run(shell="echo alive"))["output"] == "alive\n"
        assert (await two.run(shell="echo alive"))["output"] == "alive\n"
        assert execution["exit_code"] == 0, execution
        report: dict[str, Any] = json.loads(execution["output"])
        return report

    return in_a_box(kind, attack)
