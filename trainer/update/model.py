"""The model that is trained: a causal language model, and a value head on its last hidden states.

A pass gives log-probabilities, entropies and values of the tokens that are asked for, and nothing else passes
the output layer. Everything happens inside of one ``forward``, so that DDP and FSDP2 see one module.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import torch
from peft import LoraConfig as PeftLoraConfig
from peft import inject_adapter_in_model
from peft.tuners.lora import LoraLayer
from torch import nn
from transformers import AutoModelForCausalLM, PreTrainedModel

from trainer.errors import ConfigError

from .architecture import attention_for, text_config, without_dropout
from .head import adjusted, chunked_statistics
from .loading import fill
from .naming import Origin
from .pretrained import PretrainedFiles

if TYPE_CHECKING:
    from pathlib import Path

    from torch import Tensor

    from trainer.config import LoraConfig, RunConfig

    from .packing import MicroBatch

__all__ = ["ADAPTER", "ActorCritic", "TokenOutputs", "load_model", "make_model", "peft_config"]


_CPU = torch.device("cpu")
ADAPTER = "default"
"""PEFT's name of the one adapter that there is."""


class TokenOutputs(NamedTuple):
    """Of the K kept tokens of a pass; float32. A tuple, since FSDP2 looks for tensors in tuples."""

    logprobs_K: Tensor
    entropy_K: Tensor
    values_K: Tensor | None
    """What the critic expects from before the token on; None without a critic."""


class ActorCritic(nn.Module):
    """A language model with an optional critic that shares its trunk."""

    def __init__(
        self,
        language: PreTrainedModel,
        origin: Origin,
        *,
        critic: bool,
        detach_values: bool = False,
        logits_tokens: int = 1024,
    ) -> None:
        super().__init__()
        self.language = language
        self.origin = origin
        self.value_head = nn.Linear(language.config.hidden_size, 1) if critic else None
        self._detach_values = detach_values
        self._logits_tokens = logits_tokens
        self._head_checked = False
        if self.value_head is not None:
            nn.init.zeros_(self.value_head.weight)
            nn.init.zeros_(self.value_head.bias)

    def forward(self, micro: MicroBatch) -> TokenOutputs:
        """Statistics of the kept tokens, from the hidden states before them."""
        hidden: list[Tensor] = []
        head: nn.Module = self.language.get_output_embeddings()  # type: ignore[no-untyped-call]

        def keep(_: nn.Module, given: tuple[Tensor, ...]) -> tuple[Tensor]:
            hidden.append(given[0].flatten(0, -2)[micro.sources_K])
            return (hidden[0][:1].detach(),)  # one row is enough to see what the model makes of it

        hook = head.register_forward_pre_hook(keep)
        try:
            # A cache would keep transformers from seeing where packed sequences begin.
            one_V = self.language(
                input_ids=micro.input_ids,
                position_ids=micro.position_ids,
                use_cache=False,
                **({"sequence_lengths": micro.lengths} if micro.lengths else {}),
            ).logits
        finally:
            hook.remove()
        self._check_head(head, hidden[0], one_V)
        logprobs_K, entropy_K = chunked_statistics(
            lambda states: adjusted(self.language.config, head(states)),
            hidden[0],
            micro.targets_K,
            micro.temperature,
            self._logits_tokens,
        )
        return TokenOutputs(logprobs_K, entropy_K, self._values(hidden[0]))

    @torch.no_grad()
    def _check_head(self, head: nn.Module, hidden_KH: Tensor, one_V: Tensor) -> None:
        """At the first pass: the output layer here is the model's own, whatever that does behind it.

        Raises ConfigError.
        """
        if self._head_checked or not len(hidden_KH):
            return
        found = adjusted(self.language.config, head(hidden_KH[:1]))
        if not torch.allclose(found.float().flatten(), one_V.float().flatten(), rtol=1e-3, atol=1e-3):
            raise ConfigError(
                f"a model of type {self.language.config.model_type} does something to its logits that the "
                "learner does not know"
            )
        self._head_checked = True

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


def make_model(folder: Path, config: RunConfig) -> ActorCritic:
    """The model of a folder with what the run adds to it, still without the folder's weights.

    Those are on the meta device, so that ranks can share them out before anything is read. What is new is on
    the CPU, the same on every rank, from the run's seed. Raises ConfigError for what cannot be trained.
    """
    learner, algorithm = config.learner, config.algorithm
    text = without_dropout(text_config(folder))
    files = PretrainedFiles.of(folder)
    attention = attention_for(text, learner.layout)
    with torch.device("meta"):
        language: PreTrainedModel = AutoModelForCausalLM.from_config(  # type: ignore[no-untyped-call]
            text, dtype=torch.float32, attn_implementation=attention
        )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.seed)
        if learner.lora is not None:
            _adapt(language, peft_config(learner.lora, str(folder)))
        if learner.gradient_checkpointing:
            language.gradient_checkpointing_enable({"use_reentrant": False})
        origin = Origin.of(language, files)
        return ActorCritic(
            language,
            origin,
            critic=algorithm.needs_values,
            detach_values=algorithm.value.detach,
            logits_tokens=learner.logits_tokens,
        )


def _adapt(language: PreTrainedModel, config: PeftLoraConfig) -> None:
    """Give it adapters with PEFT's first values; PEFT itself would leave them on the meta device."""
    inject_adapter_in_model(config, language)
    for layer in language.modules():
        if isinstance(layer, LoraLayer):
            for part in (layer.lora_A, layer.lora_B):
                part.to_empty(device="cpu")
            layer.reset_lora_parameters(ADAPTER, init_lora_weights=True)  # type: ignore[no-untyped-call]


def load_model(folder: Path, config: RunConfig) -> ActorCritic:
    """The model of a folder with its weights, whole, on the CPU. Raises ConfigError."""
    core = make_model(folder, config)
    fill(core, _CPU, _CPU)
    return core
