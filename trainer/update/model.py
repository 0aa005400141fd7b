"""The trained model: a causal language model with a value head on its last hidden states.

A pass returns log-probabilities, entropies and values of the requested tokens; no other tokens pass the
output layer. Everything happens inside one ``forward``, so that DDP and FSDP2 see one module.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import nn

from trainer.errors import ConfigError

from .head import adjusted, chunked_statistics
from .language import computes_in_half, make_language
from .naming import WeightOrigin
from .pretrained import PretrainedFiles

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedModel

    from trainer.config import LearnerSettings

    from .packing import MicroBatch


class TokenOutputs(NamedTuple):
    """Outputs for the K kept tokens of a pass; float32. A tuple, since FSDP2 looks for tensors in tuples."""

    logprobs_K: Tensor
    entropy_K: Tensor
    values_K: Tensor | None
    """The critic's value estimate, or a reward model's output, before each token; None without a head."""
    teacher_kl_K: Tensor | None = None
    """Reverse KL to a teacher, where the pass was given its logits."""
    logits_KV: Tensor | None = None
    """None unless the pass wants them; the statistics are then those of no tokens."""


class ActorCritic(nn.Module):
    """A language model with an optional critic that shares its trunk."""

    def __init__(
        self,
        language: PreTrainedModel,
        origin: WeightOrigin,
        *,
        outputs: int,
        detach_values: bool = False,
        logits_tokens: int = 1024,
    ) -> None:
        """``outputs``: outputs of the head, of which a critic reads the first; 0 for none."""
        super().__init__()
        self.language = language
        self.origin = origin
        self.value_head = nn.Linear(language.config.hidden_size, outputs) if outputs else None
        self.detach_values = detach_values
        """Whether the head's gradient ends at the trunk."""
        self._logits_tokens = logits_tokens
        self._head_checked = False
        if self.value_head is not None:
            nn.init.zeros_(self.value_head.weight)
            nn.init.zeros_(self.value_head.bias)

    def forward(self, micro: MicroBatch) -> TokenOutputs:
        """Return statistics of the kept tokens, from the hidden states before them."""
        hidden: list[Tensor] = []
        head: nn.Module = self.language.get_output_embeddings()  # type: ignore[no-untyped-call]

        def keep(_: nn.Module, given: tuple[Tensor, ...]) -> tuple[Tensor]:
            hidden.append(given[0].flatten(0, -2)[micro.sources_K])
            return (hidden[0][:1].detach(),)  # one row is enough to compare the logits

        hook = head.register_forward_pre_hook(keep)
        try:
            # With a cache, transformers would not see where packed sequences begin.
            one_V = self.language(
                input_ids=micro.input_ids,
                position_ids=micro.position_ids,
                use_cache=False,
                **({"sequence_lengths": micro.lengths} if micro.lengths else {}),
            ).logits
        finally:
            hook.remove()
        self._check_head(head, hidden[0], one_V)

        def logits(states: Tensor) -> Tensor:
            return adjusted(self.language.config, head(states))

        if micro.wants_logits:
            none = hidden[0].new_empty(0, dtype=torch.float32)
            return TokenOutputs(none, none, None, logits_KV=logits(hidden[0]))
        logprobs_K, entropy_K, *kl = chunked_statistics(
            logits, hidden[0], micro.targets_K, micro.temperature, self._logits_tokens, micro.teacher_KV
        )
        values_K = self._values(hidden[0], micro.outputs_K)
        return TokenOutputs(logprobs_K, entropy_K, values_K, kl[0] if kl else None)

    @torch.no_grad()
    def _check_head(self, head: nn.Module, hidden_KH: Tensor, one_V: Tensor) -> None:
        """Check at the first pass that ``_logits`` equals the model's own output layer.

        Raises ConfigError.
        """
        if self._head_checked or not len(hidden_KH):
            return
        found = adjusted(self.language.config, head(hidden_KH[:1]))
        if not torch.allclose(found.float().flatten(), one_V.float().flatten(), rtol=1e-3, atol=1e-3):
            raise ConfigError(
                f"model.path: a model of type {self.language.config.model_type} transforms its "
                "logits in a way that the learner does not support"
            )
        self._head_checked = True

    def _values(self, hidden_KH: Tensor, outputs_K: Tensor) -> Tensor | None:
        if self.value_head is None:
            return None
        states = hidden_KH.detach() if self.detach_values else hidden_KH
        with torch.autocast(states.device.type, enabled=False):
            values_KD: Tensor = self.value_head(states.float()).float()
            values_K = values_KD.gather(1, outputs_K[:, None])[:, 0]
        return values_K.clone()  # FSDP2 warns of outputs that are views


def make_model(folder: Path, settings: LearnerSettings, device: torch.device) -> ActorCritic:
    """Return the model of a folder with a run's additions, without the folder's weights.

    Weights are on the meta device, so that ranks can shard them before anything is read. New weights are on
    the CPU, the same on every rank. Raises ConfigError for a model that cannot be trained on ``device``.
    """
    learner, algorithm = settings.learner, settings.algorithm
    language = make_language(folder, settings, half=computes_in_half(learner, device))
    return ActorCritic(
        language,
        WeightOrigin.of(language, PretrainedFiles.of(folder)),
        outputs=max(settings.scores, int(algorithm.needs_values)),
        detach_values=algorithm.value.detach,
        logits_tokens=learner.logits_tokens,
    )
