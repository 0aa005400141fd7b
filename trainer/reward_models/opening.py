"""Open the reward models that a run names: folders, URLs, and those that its own stages train."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeVar

from trainer.config.learned_reward import STAGE, STAGE_MODELS, URL_BEGINNINGS
from trainer.errors import ConfigError

from .client import ServedRewardModel
from .fingerprint import folder_fingerprint
from .queue import END_S, ScoringQueue
from .rows import TextReader, TokenReader

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from .model import RewardModel
    from .note import RewardModelNote
    from .rows import EpisodeReader, ScoredRow
    from .wire import ModelAnswer

_Result = TypeVar("_Result")
_MOST_WAITING = 1_000_000
"""Rows of a run that wait: the number of its episodes bounds them."""


@dataclass(frozen=True, slots=True)
class MemberModel:
    """An opened reward model."""

    name: str
    note: RewardModelNote
    scorer: LocalScorer | ServedRewardModel
    reader: EpisodeReader


class LocalScorer:
    """Scores in this process."""

    def __init__(self, model: RewardModel, timeout_s: float, end_s: float = END_S) -> None:
        """``timeout_s`` is the deadline of a pass, ``end_s`` the time of the one in progress at the end."""
        self.model = model
        self._queue = ScoringQueue(model.score_rows, _MOST_WAITING, timeout_s, end_s)

    async def score_rows(self, rows: Sequence[ScoredRow]) -> list[NDArray[np.float32]]:
        return await self._queue.score_rows(rows)

    async def run_between(self, work: Callable[[], _Result]) -> _Result:
        """Run work that may change the model, between two passes of scoring."""
        return await self._queue.run_between(work)

    async def close(self) -> None:
        await self._queue.close()


@dataclass(frozen=True, slots=True)
class ModelOpener:
    """Opens the models of one run."""

    run: Path
    """The run's folder."""
    policy: Path
    """Folder of the policy, for its tokenizer."""
    reads: Literal["tokens", "text"]
    timeout_s: float
    api_key: str | None = None

    def open_model(self, name: str) -> MemberModel:
        """Open one model. Raises ConfigError for one that the run cannot use, RewardFailed at a dead URL."""
        if name.startswith(URL_BEGINNINGS):
            return self._served(name)
        # Loads torch, which most runs do not need in this process.
        from .model import RewardModel

        folder = Path(name)
        if name.startswith(STAGE):
            folder = self.run / STAGE_MODELS / name.removeprefix(STAGE)
        if not (folder / "config.json").is_file():
            raise ConfigError(f"there is no reward model at {folder}; it has no config.json")
        model = RewardModel.load(folder)
        reader = self._reader(name, folder_fingerprint(folder)) or TextReader.of(folder, model.note)
        return MemberModel(name, model.note, LocalScorer(model, self.timeout_s), reader)

    def _served(self, url: str) -> MemberModel:
        described = asyncio.run(self._described(url))
        reader = self._reader(url, described.note.tokenizer)
        if reader is None:
            raise ConfigError(
                f'the reward model at {url} is read by tokens only; reads="text" needs a folder, with a '
                "tokenizer that the run can load"
            )
        scorer = ServedRewardModel(url, self.timeout_s, self.api_key)
        return MemberModel(url, described.note, scorer, reader)

    async def _described(self, url: str) -> ModelAnswer:
        asked = ServedRewardModel(url, self.timeout_s, self.api_key)
        try:
            return await asked.describe()
        finally:
            await asked.close()

    def _reader(self, name: str, theirs: str) -> EpisodeReader | None:
        """Return the reader of tokens; None for text. Raises ConfigError for another tokenizer."""
        if self.reads == "text":
            return None
        ours = folder_fingerprint(self.policy)
        if theirs != ours:
            raise ConfigError(
                f"the reward model {name} has another tokenizer than the policy in {self.policy}, so that it "
                'cannot read the policy\'s tokens; set reads="text" to score the messages instead, or use a '
                "reward model that was trained from the policy's family"
            )
        return TokenReader()
