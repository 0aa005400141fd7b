"""The rollout half without a model, in real sandboxes: the whole batch producer but for the engines."""

import json
from pathlib import Path

from sandbox_conformance.serving import serve
from sandbox_service.config import CodeConfig
from sandbox_service.environments.code.service.catalog import CodeCatalog
from trainer.batches.simulation import SimulationSettings, simulate
from trainer.config.derived_runs import simulated_run
from trainer.config.reading import read_run
from trainer.models import model_folder
from trainer.rollout.scripted import Latency
from trainer.sft.demonstrations import read_demonstrations

ROOT = Path(__file__).parents[3]


async def test_scripted_episodes_go_through_sandboxes_as_in_training(tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    words = [
        "steps=3",
        "rollout.groups=4",
        "rollout.group_size=2",
        "rollout.max_staleness=1",
        "tasks.limit=12",
    ]
    config = simulated_run(read_run(Path("deploy/runs/cpu_demo.toml"), words))
    demonstrations = read_demonstrations(Path("deploy/runs/data/arithmetic_easy.jsonl"), "code")
    script = {each.task_id: each.messages for each in demonstrations}
    settings = SimulationSettings(script, Latency(median_s=0.005, most_s=0.05), update_s=0.05)
    model = model_folder(config.model, tmp_path / "models")
    folder = tmp_path / "run"
    folder.mkdir()

    async with serve(CodeCatalog(CodeConfig()), "process") as service:
        result = await simulate(config, folder, model, service.client, settings)

    assert result.steps == 3
    assert result.episodes == 24
    assert result.success == 1.0
    assert result.failures == {}
    assert 0.0 < result.idle_share < 1.0
    assert result.phases["sandbox"].p95 >= result.phases["sandbox"].p50 > 0.0
    lines = [json.loads(line) for line in (folder / "consumed.jsonl").read_text().splitlines()]
    ids = [each for line in lines for each in line["trajectories"]]
    assert len(set(ids)) == len(ids) == 24
    difficulties = {
        each["task"]["difficulty"]
        for line in (folder / "trajectories.jsonl").read_text().splitlines()
        for each in json.loads(line)["trajectories"]
    }
    assert difficulties == {"easy"}
