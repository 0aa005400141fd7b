"""Gradings in real boxes: what a solution learns in one reaches neither the next one nor the agent."""

import asyncio
import json
import secrets
import shutil
import tempfile
from pathlib import Path

import pytest

from sandbox_service.config import LimitsConfig
from sandbox_service.environments.code.service.catalog import CodeCatalog
from sandbox_service.sandboxes.factory import open_factory
from sandbox_service.wire.frames import Op
from tests.harness.boxes import KINDS, Episode, need_kind, sandbox_config
from tests.harness.cheats import CHEATING_TASK
from tests.harness.grading_traces import HEARD_BY_AN_AGENT, lay_traces, remembering
from tests.harness.runner_box import uid_drop_missing

TASK = {
    "prompt": "Sort.",
    "files": {},
    "artifact": "solution.py",
    "tested": True,
    "bare": False,
    "max_steps": 20,
    "tool_timeout_s": 10.0,
    "max_output_bytes": 4000,
}
GRADING = {**CHEATING_TASK, "tests": ["assert solve([1]) == []"] * 2, "timeout_s": 20.0}


@pytest.fixture(params=KINDS, scope="module")
def kind(request):
    need_kind(request.param)
    if request.param == "process" and (reason := uid_drop_missing()) is not None:
        pytest.skip(reason)
    return request.param


@pytest.fixture
def state_dir():
    """A folder that other user ids can enter, which pytest's own folders do not allow."""
    folder = Path(tempfile.mkdtemp(prefix="abuse-"))
    folder.chmod(0o711)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


async def in_a_box(kind, state_dir, actions):
    config = sandbox_config(kind, state_dir=state_dir, limits=LimitsConfig(memory_mib=256, pids=64))
    factory = await open_factory(config, f"abuse{secrets.token_hex(4)}")
    try:
        box = await factory.start(CodeCatalog.spec, lambda _: None, lambda _: None)
        try:
            one = Episode(box, "i")
            await one.create(CodeCatalog.spec, TASK)
            return await actions(one)
        finally:
            await box.destroy()
    finally:
        await factory.close()


async def python(one, code):
    """The output of a cell."""
    return (await one.say(f"```python\n{code}\n```"))["observation"]["messages"][0]["content"]


async def graded(one):
    answer = await one.send(Op.EVALUATE, {"params": {}, "grading": GRADING}, deadline_s=100.0)
    return json.loads(answer.body)


@pytest.mark.parametrize("scratch", ["/tmp", "/dev/shm", "/var/tmp"])
def test_gradings_leave_nothing_to_each_other_or_the_agent(kind, state_dir, scratch):
    async def actions(one):
        source = remembering(scratch, await python(one, lay_traces(scratch)))
        await python(one, f"open('solution.py', 'w').write({source!r})")
        verdicts = [await graded(one) for _ in range(3)]
        heard = await python(one, HEARD_BY_AN_AGENT)
        return verdicts, heard, await one.release()

    verdicts, heard, clean = asyncio.run(in_a_box(kind, state_dir, actions))
    assert [verdict["score"] for verdict in verdicts] == [1.0] * 3, verdicts
    assert heard == "[]"
    assert clean
