"""Our requests in vLLM's words, and its answers in ours. Importing this imports vLLM."""

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
    """The prompt; with a version, prefixes that other weights computed are not taken for its own."""
    prompt: dict[str, object] = {"prompt_token_ids": list(token_ids)}
    return prompt if version is None else {**prompt, "cache_salt": f"weights-{version}"}


def sampling_params(request: SamplingRequest) -> SamplingParams:
    """Ends at the request's own stop tokens only, whatever the model's files say."""
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
    """Log-probabilities of the prompt; vLLM wants to sample a token as well."""
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
    """What was sampled. Raises EngineError when vLLM says that it failed."""
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
    return Generation(token_ids, logprobs, finish, tuple(span for span in spans if span.end > span.start))


def prompt_logprobs_of(output: RequestOutput) -> tuple[float, ...]:
    """Of each token of the prompt; 0 for the first. Raises EngineError when an update came in between."""
    if output.outputs[0].finish_reason == "abort":
        raise EngineError("scoring was interrupted by a weight update")
    return (0.0, *_firsts(output.prompt_logprobs)[1:])


def _firsts(found: object) -> list[float]:
    """The first entry of each position, which is that of the position's own token; 0 where there is none."""
    if not isinstance(found, FlatLogprobs):
        raise EngineError("vLLM gave no log-probabilities")
    bounds = zip(found.start_indices, found.end_indices, strict=True)
    return [found.logprobs[start] if end > start else 0.0 for start, end in bounds]


def lora_request(adapter: Adapter) -> LoRARequest:
    """vLLM's name of an adapter; its caches go by it."""
    return LoRARequest(f"adapter-{adapter.number}", adapter.number, adapter.folder)
