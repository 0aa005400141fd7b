"""The model that is trained: a causal language model, and a value head on its last hidden states.

A pass gives log-probabilities, entropies and values of the tokens that are asked for, and nothing else passes
the output layer. Everything happens inside of one ``forward``, so that DDP and FSDP2 see one module.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import torch
from peft import LoraConfig as PeftLoraConfig
from peft import inject_adapter_in_model
from torch import nn
from transformers import AutoModelForCausalLM, PreTrainedModel

from trainer.errors import ConfigError

from .architecture import attention_for, text_config
from .logprobs import token_statistics

if TYPE_CHECKING:
    from pathlib import Path

    from torch import Tensor

    from trainer.config import LoraConfig, RunConfig

    from .packing import MicroBatch

__all__ = ["ActorCritic", "TokenOutputs", "load_model", "peft_config"]


class TokenOutputs(NamedTuple):
    """Of the K kept tokens of a pass; float32. A tuple, since FSDP2 looks for tensors in tuples."""

    logprobs_K: Tensor
    entropy_K: Tensor
    values_K: Tensor | None
    """What the critic expects from before the token on; None without a critic."""


class ActorCritic(nn.Module):
    """A language model with an optional critic that shares its trunk."""

    def __init__(self, language: PreTrainedModel, *, critic: bool, detach_values: bool = False) -> None:
        super().__init__()
        self.language = language
        self.value_head = nn.Linear(language.config.hidden_size, 1) if critic else None
        self._detach_values = detach_values
        if self.value_head is not None:
            nn.init.zeros_(self.value_head.weight)
            nn.init.zeros_(self.value_head.bias)

    def forward(self, micro: MicroBatch) -> TokenOutputs:
        """Statistics of the kept tokens, from the hidden states before them."""
        hidden: list[Tensor] = []

        def keep(_: nn.Module, given: tuple[Tensor, ...]) -> tuple[Tensor]:
            hidden.append(given[0].flatten(0, -2)[micro.sources_K])
            return (hidden[0],)

        head: nn.Module = self.language.get_output_embeddings()  # type: ignore[no-untyped-call]
        hook = head.register_forward_pre_hook(keep)
        try:
            # A cache would keep transformers from seeing where packed sequences begin.
            logits_KV = self.language(
                input_ids=micro.input_ids,
                position_ids=micro.position_ids,
                use_cache=False,
                **({"sequence_lengths": micro.lengths} if micro.lengths else {}),
            ).logits
        finally:
            hook.remove()
        logprobs_K, entropy_K = token_statistics(logits_KV.flatten(0, -2), micro.targets_K)
        return TokenOutputs(logprobs_K, entropy_K, self._values(hidden[0]))

    def _values(self, hidden_KH: Tensor) -> Tensor | None:
        if self.value_head is None:
            return None
        states = hidden_KH.detach() if self._detach_values else hidden_KH
        with torch.autocast(states.device.type, enabled=False):
            values_K: Tensor = self.value_head(states.float()).float()[:, 0]
        return values_K.clone()  # FSDP2 warns of outputs that are views


def peft_config(config: LoraConfig, base: str) -> PeftLoraConfig:
    """PEFT's own words for an adapter on the model named ``base``."""
    return PeftLoraConfig(
        r=config.rank,
        lora_alpha=config.alpha,  # type: ignore[arg-type]  # it only divides it
        lora_dropout=config.dropout,
        target_modules=config.targets if isinstance(config.targets, str) else list(config.targets),
        task_type="CAUSAL_LM",
        base_model_name_or_path=base,
    )


def load_model(folder: Path, config: RunConfig) -> ActorCritic:
    """The model in a folder, in float32 on the CPU, with what the run adds to it.

    The same on every rank: what is new has its first values from the run's seed. Raises ConfigError.
    """
    learner, algorithm = config.learner, config.algorithm
    attention = attention_for(text_config(folder), learner.layout)
    try:
        language: PreTrainedModel = AutoModelForCausalLM.from_pretrained(
            folder, dtype=torch.float32, attn_implementation=attention, local_files_only=True
        )
    except (OSError, ValueError) as error:
        raise ConfigError(f"no causal language model can be read from {folder}: {error}") from error
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.seed)
        if learner.lora is not None:
            inject_adapter_in_model(peft_config(learner.lora, str(folder)), language)
        if learner.gradient_checkpointing:
            language.gradient_checkpointing_enable({"use_reentrant": False})
        return ActorCritic(language, critic=algorithm.needs_values, detach_values=algorithm.value.detach)
