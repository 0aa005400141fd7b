"""The language model that is trained, still without its weights: attention, adapters, precision."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import torch
from peft import LoraConfig as PeftLoraConfig
from peft import inject_adapter_in_model
from peft.tuners.lora import LoraLayer, ParamWrapper
from transformers import AutoModelForCausalLM

from trainer.errors import ConfigError

from .architecture import attention_for, text_config, without_dropout

if TYPE_CHECKING:
    from pathlib import Path

    from transformers import PreTrainedModel

    from trainer.config import LearnerConfig, LoraConfig, RunConfig

__all__ = ["ADAPTER", "computes_in_half", "make_language", "peft_config"]

ADAPTER = "default"
"""PEFT's name of the one adapter that there is."""


def computes_in_half(learner: LearnerConfig, device: torch.device) -> bool:
    """Whether passes through the model are in bfloat16."""
    return learner.dtype == "bfloat16" or (learner.dtype == "auto" and device.type == "cuda")


def make_language(folder: Path, config: RunConfig, *, half: bool) -> PreTrainedModel:
    """The language model of a folder, without the folder's weights, which are on the meta device.

    Adapters are on the CPU, with first values from the run's seed, the same on every rank.

    Args:
        folder: of the model.
        config: of the run.
        half: passes are in bfloat16; what adapters leave as it is may then be kept so, too.

    Raises:
        ConfigError: the folder holds no model that can be trained as configured.
    """
    learner = config.learner
    text = without_dropout(text_config(folder))
    attention = attention_for(text, learner.layout)
    with torch.device("meta"):
        language: PreTrainedModel = AutoModelForCausalLM.from_config(  # type: ignore[no-untyped-call]
            text, dtype=torch.float32, attn_implementation=attention
        )
    if learner.lora is not None:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(config.seed)
            _adapt(language, peft_config(learner.lora, str(folder)))
        _keep_base(language, learner.lora, half=half)
    if learner.gradient_checkpointing:
        language.gradient_checkpointing_enable({"use_reentrant": False})
    return language


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


def _adapt(language: PreTrainedModel, config: PeftLoraConfig) -> None:
    """Give it adapters with PEFT's first values; PEFT itself would leave them on the meta device."""
    try:
        with warnings.catch_warnings():
            # PEFT sets ranks of fused experts, and then warns that "all-linear" leaves these out.
            warnings.filterwarnings("ignore", "The following (rank|alpha)_pattern keys", RuntimeWarning)
            inject_adapter_in_model(config, language)
    except ValueError as error:
        raise ConfigError(f"learner.lora: {str(error).partition(chr(10))[0]}") from error
    if any(isinstance(layer, ParamWrapper) for layer in language.modules()):
        raise ConfigError(
            f"learner.lora.targets={config.target_modules} would adapt the experts of a model of type "
            f"{language.config.model_type}, which adapters do not work with; name other layers, such as "
            'targets=["q_proj", "k_proj", "v_proj", "o_proj"]'
        )
    for layer in language.modules():
        if isinstance(layer, LoraLayer):
            for part in (layer.lora_A, layer.lora_B):
                part.to_empty(device="cpu")
            layer.reset_lora_parameters(ADAPTER, init_lora_weights=True)  # type: ignore[no-untyped-call]


def _keep_base(language: PreTrainedModel, config: LoraConfig, *, half: bool) -> None:
    """Put what adapters leave as it is into its precision, but for what the model needs in float32."""
    if config.base_dtype == "float32" or (config.base_dtype == "auto" and not half):
        return
    if not half:
        raise ConfigError(
            "learner.lora.base_dtype=bfloat16 is for passes in bfloat16; set learner.dtype=bfloat16, too"
        )
    exact = tuple(getattr(language, "_keep_in_fp32_modules_strict", None) or ())
    for name, parameter in language.named_parameters():
        if not parameter.requires_grad and not any(part in name for part in exact):
            parameter.data = parameter.data.to(torch.bfloat16)
