"""Run a simulation from the driver's process: a sandbox service and rollouts, without a learner."""

from __future__ import annotations

import asyncio
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from trainer.batches.players import open_client
from trainer.batches.simulation import SimulationSettings
from trainer.batches.simulation import simulate as simulate_rollouts
from trainer.config.derived_runs import simulated_run
from trainer.models.folders import model_folder
from trainer.rollout.scripted import Latency
from trainer.sft.demonstrations import read_demonstrations

from .service import sandbox_service

if TYPE_CHECKING:
    from sandbox_contract.messages import Message
    from trainer.batches.simulation import SimulationResult
    from trainer.config import RunConfig
    from trainer.rollout.scripted import Script
    from trainer.types import EpisodeKey

    from .simulated_model import SimulatedModel


def simulate(config: RunConfig, model: SimulatedModel) -> SimulationResult:
    """Run all steps with a simulated model. Leaves nothing behind. Raises TrainerError."""
    config = simulated_run(config)
    settings = SimulationSettings(_script(config, model), Latency(model.turn_s, model.spread), model.update_s)
    key = os.environ.get(config.service.api_key_variable)
    with tempfile.TemporaryDirectory(prefix="simulation-") as name:
        folder = Path(name)
        with sandbox_service(config.service, config.environments, folder) as url:
            tokenizer = model_folder(config.model, config.root / "models")
            client = open_client(config.service, url, key)
            return asyncio.run(simulate_rollouts(config, folder, tokenizer, client, settings))


def _script(config: RunConfig, model: SimulatedModel) -> Script:
    file = model.demonstrations
    first, *others = config.tasks.environments
    shown = read_demonstrations(file, first, others=others) if file is not None else ()
    lines = {each.task_id: each.messages for each in shown}

    def respond(key: EpisodeKey) -> Message | str:
        said = lines.get(key.task.task_id, ())
        return said[key.turn] if key.turn < len(said) else model.message

    return respond
