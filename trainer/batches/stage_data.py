"""The data of a run's stages that play no episodes: a warm start on demonstrations, and recorded data."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from trainer.offline.prepare import prepare_stage
from trainer.rollout.base_player import context_limit
from trainer.sft.warm_start import prepare_warm_start

from .dependencies import StageData
from .players import open_demonstrating_agent

if TYPE_CHECKING:
    from sandbox_client import AsyncSandboxClient
    from trainer.chat import ChatTokenizer
    from trainer.config import RunConfig
    from trainer.rollout.progress import ProgressMonitor


def stage_data(
    config: RunConfig, folder: Path, client: AsyncSandboxClient, chat: ChatTokenizer, watch: ProgressMonitor
) -> Mapping[int, StageData]:
    """Return the data of the run's warm start, 0, and of its stages on recorded data, by their places.

    Nothing is read or played before it is asked for.
    """
    context = context_limit(config.rollout, chat)
    data = {
        place: StageData(
            f"the data of stage {stage.name}",
            partial(prepare_stage, stage, folder, config.seed, context, chat),
            stage.timeout_s,
        )
        for place, stage in config.offline_stages.items()
    }
    settings, agent = config.warm_start_settings, config.agent
    if settings is not None:
        played_by = None
        if agent is not None:
            played_by = partial(open_demonstrating_agent, config, agent, folder, client, chat, watch)
        prepare = partial(prepare_warm_start, settings, folder, client, chat, watch, played_by)
        data[0] = StageData("the warm start", prepare, settings.warm_start.timeout_s)
    return data
