"""The demo's demonstrations, played in real sandboxes and made into batches."""

from pathlib import Path

import pytest

from sandbox_conformance.serving import serve
from sandbox_service.config import CodeConfig
from sandbox_service.environments.code.service.catalog import CodeCatalog
from trainer.chat import ChatTokenizer
from trainer.config.reading import read_run
from trainer.models import model_folder
from trainer.sft.demonstrations import PLAYED, read_demonstrations
from trainer.sft.warm_start import prepare_warm_start, read_played
from trainer.types import StopReason

ROOT = Path(__file__).parents[3]


@pytest.fixture(autouse=True)
def at_the_root(monkeypatch: pytest.MonkeyPatch) -> None:
    """The run names its files from there."""
    monkeypatch.chdir(ROOT)


async def test_the_training_text_is_what_the_sandbox_answered_and_only_corrupted_demonstrations_fail(
    tmp_path: Path,
) -> None:
    run = read_run(Path("deploy/runs/cpu_demo.toml"), ["warm_start.limit=40"])
    assert run.warm_start is not None
    chat = ChatTokenizer(model_folder(run.model, tmp_path), run.chat)
    shown = read_demonstrations(run.warm_start.demonstrations, "code", 40)
    correct = read_demonstrations(ROOT / "deploy/runs/data/arithmetic_easy.jsonl", "code", 40)
    async with serve(CodeCatalog(CodeConfig()), "process") as service:
        batches = await prepare_warm_start(run.warm_start_settings, tmp_path, service.client, chat)
        again = await prepare_warm_start(run.warm_start_settings, tmp_path, service.client, chat)
        assert not (await service.client.stats()).instances
    played = read_played(tmp_path / PLAYED) or ()

    assert len(played) == 40
    for trajectory, demonstration, solution in zip(played, shown, correct, strict=True):
        assert trajectory.task.task_id == demonstration.task_id == solution.task_id
        assert trajectory.success == (demonstration == solution), demonstration
        assert trajectory.stop is StopReason.TERMINATED
        said = [line.content for line in trajectory.lines if line.role == "assistant"]
        assert said == [message.content for message in demonstration.messages]
        (segment,) = trajectory.segments
        spoken = [token for token, own in zip(segment.token_ids, segment.loss_mask, strict=True) if own]
        assert chat.decode(spoken).replace("<|end|>", "") == "".join(said)
        assert len(segment.token_ids) < 80
    batch = batches.get_batch(0)
    assert [each.id for each in batch.samples] == [each.id for each in again.get_batch(0).samples]
    assert len(batch.samples) == run.warm_start.batch
    assert 0.15 < batch.metrics["demonstrations/success"] < 0.6
