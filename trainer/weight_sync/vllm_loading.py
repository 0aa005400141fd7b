"""What vLLM's layer by layer reload filled, and what it did not. Runs in vLLM's workers alone.

vLLM counts for each layer how many elements its loaders copied. A layer that is complete has been packed and
put in place already; what is incomplete when all weights have come is looked at here, before vLLM ends the
reload: it would put former values back where nothing came, and only write that to a log.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from vllm.model_executor.layers.attention import is_deferred_attention_layer
from vllm.model_executor.layers.linear import UnquantizedLinearMethod
from vllm.model_executor.layers.vocab_parallel_embedding import VocabParallelEmbedding
from vllm.model_executor.model_loader.reload.layerwise import get_layerwise_info
from vllm.model_executor.model_loader.reload.meta import SKIP_LOAD_TENSORS

if TYPE_CHECKING:
    from torch import Tensor, nn


def left_out(model: nn.Module) -> tuple[str, ...]:
    """Parameters that got no values, or too few, by vLLM's names; of a multimodal model's language model.

    Two kinds of incomplete layers are in order: embeddings with rows of padding, and a quantized layer that
    makes some of its parameters itself, which therefore counts only when nothing at all came for it. The
    scales of a quantized cache (attention layers) are not looked at. Nor is, on a GPU, a layer that came
    under another name, such as a head that is the embedding itself; on a CPU it is a packed copy, and counts.
    """
    language = _language_model(model)
    prefix = next((f"{name}." for name, each in model.named_modules() if each is language and name), "")
    filled = set(_filled(language))
    found = []
    for name, layer in language.named_modules():
        where = f"{prefix}{name}." if name else prefix
        for parameter, there in _incomplete(layer):
            if there.device.type == "cpu" or there.data_ptr() not in filled:
                found.append(where + parameter)
    return tuple(sorted(found))


def _language_model(model: Any) -> nn.Module:  # noqa: ANN401 - vLLM's models have no common type
    found: nn.Module = model.get_language_model() if hasattr(model, "get_language_model") else model
    return found


def _incomplete(layer: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """Parameters of one layer, with the tensors that would be put back."""
    info = get_layerwise_info(layer)
    if not info.can_load() or info.kernel_tensors is None or is_deferred_attention_layer(layer):
        return
    parameters = layer.named_parameters(recurse=False)
    wanted = {name: each for name, each in parameters if name not in SKIP_LOAD_TENSORS}
    came = {name for name, _ in info.loaded_weights}
    method = getattr(layer, "quant_method", None)
    padded = isinstance(layer, VocabParallelEmbedding)
    plain = method is None or isinstance(method, UnquantizedLinearMethod)
    short = info.load_numel < sum(each.numel() for each in wanted.values())
    if came and not padded and not plain:
        return
    for name, each in wanted.items():
        if name not in came or (plain and not padded and short):
            yield name, info.kernel_tensors[0].get(name, each)


def _filled(model: nn.Module) -> Iterator[int]:
    """Addresses of parameters that hold new values, or will when the reload ends."""
    for layer in model.modules():
        info = get_layerwise_info(layer)
        tensors: Mapping[str, Tensor]
        if not info.can_load():
            tensors = dict(layer.named_parameters(recurse=False))
        elif info.loaded_weights and info.kernel_tensors is not None:
            tensors = info.kernel_tensors[0]
        else:
            continue
        for tensor in tensors.values():
            yield tensor.data_ptr()
