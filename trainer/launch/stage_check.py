"""Check the recorded data of stages that have not begun, before anything that costs time starts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from trainer.chat import ChatTokenizer
from trainer.loop.plan import plan_of
from trainer.loop.progress_note import read_progress
from trainer.offline.prepare import stage_batches
from trainer.offline.records import stage_records
from trainer.rollout.base_player import context_limit

if TYPE_CHECKING:
    from trainer.config import RunConfig


def check_later_stages(config: RunConfig, folder: Path, model: Path) -> None:
    """Tokenize the rows of all stages after the one that the run in ``folder`` begins or goes on with.

    That one's rows are tokenized before its first step anyway. Raises DataError for rows that the chat
    template of the model's folder rejects or that do not fit its context, as the stage itself would, hours
    later.
    """
    progress = read_progress(folder)
    coming = plan_of(config).from_step(progress[0] if progress is not None else 0)[1:]
    stages = [config.offline_stages[stage.index] for stage in coming if stage.index in config.offline_stages]
    if not stages:
        return
    chat = ChatTokenizer(model, config.chat)
    context = context_limit(config.rollout, chat)
    for stage in stages:
        stage_batches(stage, stage_records(stage), config.seed, context, chat)
