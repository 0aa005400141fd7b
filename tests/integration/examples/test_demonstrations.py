"""The demonstrations of the examples, played by each agent in real sandboxes, solve their tasks."""

from __future__ import annotations

import pytest

from sandbox_conformance.serving import serve
from sandbox_service.config import CodeConfig
from sandbox_service.environments.code.service.catalog import CodeCatalog
from tests.harness.agent_packages import AGENTS
from tests.harness.agent_runs import agent_run, run_words
from trainer.batches.players import open_demonstrating_agent
from trainer.chat import ChatTokenizer
from trainer.config.reading import read_run
from trainer.models import model_folder
from trainer.rollout.progress import ProgressMonitor
from trainer.sft.demonstrations import PLAYED
from trainer.sft.warm_start import prepare_warm_start, read_played
from trainer.types import StopReason

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

FEW = 4


@pytest.mark.parametrize("name", AGENTS)
async def test_an_agent_plays_its_demonstrations_in_sandboxes(name, tmp_path):
    words = [*run_words(name), f"warm_start.limit={FEW}", f"warm_start.batch={FEW}"]
    config = read_run(agent_run(name), words)
    chat = ChatTokenizer(model_folder(config.model, tmp_path / "models"), config.chat)
    watch = ProgressMonitor()
    (tmp_path / "logs").mkdir()
    async with serve(CodeCatalog(CodeConfig()), "process") as service:

        def played_by(policy):
            client = service.client
            return open_demonstrating_agent(config, config.agent, tmp_path, client, chat, watch, policy)

        settings = config.warm_start_settings
        batches = await prepare_warm_start(settings, tmp_path, service.client, chat, watch, played_by)
    played = read_played(tmp_path / PLAYED)
    assert batches.metrics == {"demonstrations/kept": FEW, "demonstrations/success": 1.0}
    ended = {StopReason.AGENT_ENDED if name == "mini_swe_agent" else StopReason.TERMINATED}
    assert {trajectory.stop for trajectory in played} == ended
    sequences = [len(trajectory.segments) for trajectory in played]
    assert sequences == [2 if name == "smolagents" else 1] * FEW
    for trajectory in played:
        for segment in trajectory.segments:
            assert sum(segment.loss_mask) == sum(turn.end - turn.start for turn in segment.turns)
