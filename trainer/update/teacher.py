"""The teacher of on-policy distillation on the learner's workers: another model, frozen, that only scores.

It is distributed over the ranks like the model in training (a shard each with FSDP2, whole otherwise) and
has no adapters, critic or gradients. Its architecture may differ; its tokenizer may not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from trainer.config.algorithm import Grpo

from .model import make_model
from .scoring import Scorer
from .sharding import Parallel

if TYPE_CHECKING:
    from torch import Tensor

    from trainer.config import LearnerSettings
    from trainer.types import FloatT

    from .mesh import Mesh
    from .packing import MicroBatch, Row


class Teacher:
    """A frozen model that scores the policy's tokens."""

    def __init__(
        self, folder: Path, settings: LearnerSettings, device: torch.device, mesh: Mesh, temperature: float
    ) -> None:
        """Load the model; collective. Raises ConfigError for a folder without a usable model."""
        plain = scoring_settings(settings)
        core = make_model(folder, plain, device)
        core.requires_grad_(requires_grad=False)
        learner = plain.learner
        self._temperature = temperature
        self._model = Parallel(core, learner, device, mesh)
        self._scorer = Scorer(self._model, learner.micro_batch_tokens, learner.layout)

    def score(self, rows: Sequence[Row]) -> list[FloatT]:
        """Return the log-probabilities of the kept tokens, 0 elsewhere, on every rank; collective."""
        return self._scorer.score(rows, self._temperature).logprobs

    @torch.no_grad()
    def logits(self, micro: MicroBatch) -> Tensor:
        """Return the logits of a micro-batch's kept tokens, divided by the teacher's temperature; collective.

        K x V, in the model's own precision. Where ranks share rows, those of the tokens of this rank's part.
        """
        self._model.core.eval()
        found = self._model(replace(micro, wants_logits=True)).logits_KV
        self._model.rest()
        if found is None:
            raise RuntimeError("the pass returned no logits")
        return found.div_(self._temperature)


def scoring_settings(settings: LearnerSettings) -> LearnerSettings:
    """Return settings of the same learner for a model that is not trained: no adapters and no critic."""
    learner = settings.learner.model_copy(
        update={"lora": None, "gradient_checkpointing": False, "offload_activations": False}
    )
    return replace(
        settings, learner=learner, algorithm=settings.algorithm.model_copy(update={"advantage": Grpo()})
    )
