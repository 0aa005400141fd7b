"""State of a stage besides the model: optimizer, reference, KL coefficient and multipliers.

With the model's trained weights and the random state of each rank it is all that the next update depends on,
and so what a checkpoint holds.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from sandbox_settings import read_stored
from trainer.config import OptimizerConfig

from .checkpoint import LearnerNote
from .multipliers import initial_multipliers, updated_multipliers
from .objective import AdaptiveCoefficient, sequence_kl
from .optimizer import Optimizer
from .reference import Reference

if TYPE_CHECKING:
    from torch import Tensor

    from trainer.config import LearnerSettings
    from trainer.types import Sample

    from .model import ActorCritic

_MOMENT = "optimizer."
_REFERENCE = "reference."


class StageState:
    """The state of one stage on one rank."""

    def __init__(
        self,
        core: ActorCritic,
        settings: LearnerSettings,
        optimizer: OptimizerConfig,
        steps: int,
        *,
        reference: bool,
        critic: bool,
    ) -> None:
        """Begin a stage of ``steps`` steps; the model as it is is copied as ``reference``.

        ``critic``: the head is the algorithm's critic, with its learning rate.
        """
        algorithm = settings.algorithm
        waiting = settings.learner.offload == "optimizer"
        rate = algorithm.value.learning_rate if critic else None
        self.optimizer = Optimizer(core, optimizer, steps, rate, waiting=waiting)
        self._critic = critic
        self.reference = Reference(self.optimizer.parameters) if reference else None
        """Copy of the weights at the start of the stage; None where nothing compares with it."""
        self.kl = AdaptiveCoefficient.of(algorithm.kl)
        self.multipliers = initial_multipliers(algorithm.constraints)
        """Lagrange multipliers by cost."""
        self._constraints = algorithm.constraints

    @classmethod
    def of_note(cls, core: ActorCritic, settings: LearnerSettings, note: LearnerNote) -> StageState:
        """Return the state of a checkpoint's stage, whose tensors are still to be read."""
        compared = any(name.startswith(_REFERENCE) for name in note.shapes)
        optimizer = read_stored(OptimizerConfig, json.dumps(note.optimizer))
        state = cls(core, settings, optimizer, note.steps, reference=compared, critic=note.critic)
        state.optimizer.done = note.done
        state.kl = replace(state.kl, value=note.kl_coefficient)
        state.multipliers |= {
            name: note.multipliers.get(name, initial) for name, initial in state.multipliers.items()
        }
        return state

    def adapt(self, samples: Sequence[Sample], batch_metrics: Mapping[str, float]) -> dict[str, float]:
        """Adapt to a batch: the KL coefficient to the KL of a sequence, multipliers to the mean costs.

        Args:
            samples: the trained tokens, with log-probabilities before the update.
            batch_metrics: those of the batch, which credit assignment measured.

        Returns metrics.
        """
        metrics: dict[str, float] = {}
        measured = sequence_kl(samples)
        if measured is not None:
            self.kl = self.kl.after(measured, len(samples))
            metrics["reference/kl_sequence"] = measured
        names = [each.cost for each in self._constraints]
        costs = {name: batch_metrics[f"cost/{name}"] for name in names if f"cost/{name}" in batch_metrics}
        self.multipliers = updated_multipliers(self.multipliers, costs, self._constraints)
        return metrics | {f"multiplier/{name}": value for name, value in self.multipliers.items()}

    def tensors(self) -> dict[str, Tensor]:
        """Return all tensors of a checkpoint, which are loaded in place."""
        tensors = {f"weight.{name}": value.detach() for name, value in self.optimizer.parameters.items()}
        tensors |= {f"{_MOMENT}{name}": value for name, value in self.optimizer.moments().items()}
        if self.reference is not None:
            tensors |= {f"{_REFERENCE}{name}": value for name, value in self.reference.values.items()}
        return tensors

    def note(self, tensors: Mapping[str, Tensor], world: int) -> LearnerNote:
        """Return the state other than tensors; ``world`` ranks write the checkpoint."""
        optimizer = self.optimizer
        return LearnerNote(
            optimizer=optimizer.config.model_dump(),
            steps=optimizer.steps,
            done=optimizer.done,
            updates=optimizer.updates,
            critic=self._critic,
            kl_coefficient=self.kl.value,
            multipliers=dict(self.multipliers),
            world=world,
            shapes={name: list(tensor.shape) for name, tensor in tensors.items()},
        )

    def load_moments(self, tensors: Mapping[str, Tensor], updates: int) -> None:
        """Go on after ``updates`` updates, with moments among the tensors of a checkpoint."""
        moments = {
            name.removeprefix(_MOMENT): value for name, value in tensors.items() if name.startswith(_MOMENT)
        }
        self.optimizer.load_moments(moments)
        self.optimizer.updates = updates
