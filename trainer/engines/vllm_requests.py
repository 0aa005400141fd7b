"""Convert requests to vLLM's types and its outputs back. Importing this module imports vLLM."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vllm import SamplingParams
from vllm.logprobs import FlatLogprobs
from vllm.lora.request import LoRARequest
from vllm.sampling_params import RequestOutputKind

from trainer.errors import EngineError
from trainer.types import VersionSpan

from .generation import Finish, Generation

if TYPE_CHECKING:
    from vllm.outputs import RequestOutput

    from .backend import Adapter, SamplingRequest


FINISHES = {"stop": Finish.STOP, "length": Finish.LENGTH, "abort": Finish.ABORT}


def prompt_of(token_ids: tuple[int, ...], version: int | None) -> Any:  # noqa: ANN401 - vLLM's own union
    """Return the prompt; a version keeps it from using prefixes that other weights computed."""
    prompt: dict[str, object] = {"prompt_token_ids": list(token_ids)}
    return prompt if version is None else {**prompt, "cache_salt": f"weights-{version}"}


def sampling_params(request: SamplingRequest) -> SamplingParams:
    """Return sampling parameters that stop at the request's own stop tokens only."""
    sampling = request.sampling
    return SamplingParams(
        max_tokens=request.max_tokens,
        temperature=sampling.temperature,
        top_p=sampling.top_p,
        top_k=sampling.top_k or 0,
        seed=request.seed,
        stop_token_ids=list(sampling.stop_ids),
        ignore_eos=True,
        logprobs=0,
        flat_logprobs=True,
        detokenize=False,
        output_kind=RequestOutputKind.FINAL_ONLY,
    )


def scoring_params() -> SamplingParams:
    """Return parameters for log-probabilities of the prompt; vLLM has to sample a token as well."""
    return SamplingParams(
        max_tokens=1,
        temperature=0.0,
        ignore_eos=True,
        prompt_logprobs=0,
        flat_logprobs=True,
        detokenize=False,
        output_kind=RequestOutputKind.FINAL_ONLY,
    )


def generation_of(output: RequestOutput) -> Generation:
    """Return the sampled tokens. Raises EngineError when vLLM reports a failure."""
    completion = output.outputs[0]
    finish = FINISHES.get(completion.finish_reason or "")
    if finish is None:
        raise EngineError(f"vLLM ended a request with {completion.finish_reason!r}")
    token_ids = tuple(completion.token_ids)
    logprobs = tuple(_firsts(completion.logprobs)) if token_ids else ()
    spans = (
        VersionSpan(start=span.start, end=span.end, version=int(span.version))
        for span in completion.weight_versions or ()
    )
    versions = tuple(span for span in spans if span.end > span.start)
    return Generation(token_ids, logprobs, finish, versions, output.num_cached_tokens)


def prompt_logprobs_of(output: RequestOutput) -> tuple[float, ...]:
    """Return the prompt's log-probabilities, 0 for the first. Raises EngineError when interrupted."""
    if output.outputs[0].finish_reason == "abort":
        raise EngineError("scoring was interrupted by a weight update")
    return (0.0, *_firsts(output.prompt_logprobs)[1:])


def _firsts(found: object) -> list[float]:
    """Return the first entry of each position, which belongs to its own token; 0 where there is none."""
    if not isinstance(found, FlatLogprobs):
        raise EngineError("vLLM returned no log-probabilities")
    bounds = zip(found.start_indices, found.end_indices, strict=True)
    return [found.logprobs[start] if end > start else 0.0 for start, end in bounds]


def lora_request(adapter: Adapter) -> LoRARequest:
    """Return vLLM's request for an adapter; its caches use the name."""
    return LoRARequest(f"adapter-{adapter.number}", adapter.number, adapter.folder)
