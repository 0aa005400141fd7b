"""A program that serves the reward model of a folder whose scoring never returns."""

from __future__ import annotations

import asyncio
import sys
import threading
from pathlib import Path
from typing import NoReturn

from trainer.reward_models.model import RewardModel
from trainer.reward_models.server import serve_until_stopped
from trainer.reward_models.server_config import RewardServerConfig


class StuckModel(RewardModel):
    """Announces each pass on standard output."""

    def score_rows(self, rows: object) -> NoReturn:
        announce("scoring")
        while True:
            threading.Event().wait()


def announce(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    model = StuckModel.load(folder)
    config = RewardServerConfig(folder, port=0)
    asyncio.run(serve_until_stopped(model, config, announce, lambda: announce("stopping"), end_s=1.0))
