from pathlib import Path

import pytest

from sandbox_service.environments.echo.service.catalog import EchoCatalog
from service_cli.policies.policies import (
    EmptyPolicy,
    EpisodePolicy,
    PolicyRunError,
    ReferencePolicy,
    View,
    read_script,
)

NOTHING = View((), (), {})


async def said(policy: EpisodePolicy, task_id: str) -> list[str | None]:
    actor = policy.make_actor(task_id, 0)
    texts = []
    while (message := await actor.act(NOTHING)) is not None:
        assert message.role == "assistant"
        texts.append(message.content)
    return texts


async def test_the_reference_policy_says_what_the_catalog_says() -> None:
    assert await said(ReferencePolicy(EchoCatalog()), "echo-10") == [f"step {index}" for index in range(10)]


def test_a_task_without_a_reference_is_named() -> None:
    class NoReference(EchoCatalog):
        def reference(self, task_id: str) -> list[dict[str, object]]:  # type: ignore[override]
            return []

    with pytest.raises(PolicyRunError, match="echo-1 has no reference"):
        ReferencePolicy(NoReference()).make_actor("echo-1", 0)


def test_a_task_that_this_machine_does_not_know_is_named_with_a_remedy() -> None:
    with pytest.raises(PolicyRunError, match="no task 'mine-1'; give the service's settings with --config"):
        ReferencePolicy(EchoCatalog()).make_actor("mine-1", 0)


async def test_the_empty_policy_says_nothing_once() -> None:
    assert await said(EmptyPolicy(), "any") == [""]


async def test_a_script_is_read_line_by_line(tmp_path: Path) -> None:
    file = tmp_path / "script.jsonl"
    file.write_text('{"task_id": "a", "messages": [{"role": "assistant", "content": "x"}]}\n\n')
    script = read_script(file)
    assert await said(script, "a") == ["x"]
    with pytest.raises(PolicyRunError, match="no line for b"):
        script.make_actor("b", 0)


@pytest.mark.parametrize(
    "line",
    [
        "{",
        '{"task_id": "a"}',
        '{"task_id": "a", "messages": [{"role": "robot"}]}',
        r'{"task_id": "a", "messages": [{"role": "assistant", "content": "\ud83d"}]}',
    ],
    ids=["no JSON", "no messages", "no role", "half a surrogate pair"],
)
def test_a_wrong_line_is_named_by_its_number(tmp_path: Path, line: str) -> None:
    file = tmp_path / "script.jsonl"
    file.write_text(f'{{"task_id": "a", "messages": []}}\n{line}\n')
    with pytest.raises(PolicyRunError, match="line 2"):
        read_script(file)


def test_a_script_that_is_not_utf_8_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "script.jsonl"
    file.write_bytes(b'{"task_id": "a", "messages": [{"role": "assistant", "content": "\xff"}]}')
    with pytest.raises(PolicyRunError, match=r"script\.jsonl is not UTF-8"):
        read_script(file)
