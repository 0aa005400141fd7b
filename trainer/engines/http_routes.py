"""Requests to vLLM's two routes that take token ids, and what their answers mean; no I/O.

``POST /inference/v1/generate`` is vLLM's own (``vllm serve --enable-scale-out``): its answers have weight
versions, and a request can be ended early with the tokens sampled so far. ``POST /v1/completions`` can do
neither, and is on every server.

Source: vLLM 0.32, ``entrypoints/scale_out/token_in_token_out/protocol.py`` and
``entrypoints/openai/completion/protocol.py``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Protocol, TypeVar

from pydantic import BaseModel, Field, ValidationError

from trainer.errors import EngineError
from trainer.types import VersionSpan

from .generation import Finish, Generation, GenerationRequest, Sampling

AnswerT = TypeVar("AnswerT", bound=BaseModel)

_FINISHES = {finish.value: finish for finish in (Finish.STOP, Finish.LENGTH, Finish.ABORT)}
_FIRST_VERSION = "default"
"""vLLM's label of weights that were never updated."""


@dataclass(frozen=True, slots=True)
class Sampled:
    """An answer of a route."""

    generation: Generation
    alternatives: Mapping[str, float]
    """Log-probabilities of likely first tokens, where the request asked for them."""


class TokenRoute(Protocol):
    """A route that samples from token ids."""

    path: str
    versioned: bool
    """Whether its answers carry weight versions."""
    abort_path: str | None
    """The route that ends a request with the tokens sampled so far, if there is one."""

    def body(
        self, model: str, request: GenerationRequest, name: str, alternatives: int = 0
    ) -> dict[str, object]:
        """Return the request's body; ``name`` identifies it, where the route takes a name."""
        ...

    def read(self, answer: bytes) -> Sampled:
        """Return what an answer says. Raises EngineError if it has no token ids or log-probabilities."""
        ...


class GenerateRoute:
    """``/inference/v1/generate``."""

    path = "/inference/v1/generate"
    versioned = True
    abort_path: str | None = "/inference/v1/abort_requests"

    def body(
        self, model: str, request: GenerationRequest, name: str, alternatives: int = 0
    ) -> dict[str, object]:
        params = _sampling(request) | {"logprobs": alternatives, "detokenize": False}
        return {
            "model": model,
            "request_id": name,
            "token_ids": list(request.token_ids),
            "sampling_params": params,
        }

    def read(self, answer: bytes) -> Sampled:
        read = _read(_GenerateAnswer, answer)
        choice = read.choices[0]
        positions = choice.logprobs.content or () if choice.logprobs is not None else ()
        spans = tuple(
            VersionSpan(span.start, span.end, _version(span.version))
            for span in choice.weight_versions or ()
            if span.end > span.start
        )
        logprobs = tuple(position.logprob for position in positions)
        first = positions[0].top_logprobs if positions else ()
        return Sampled(
            _generation(choice, logprobs, spans, read.usage),
            {str(each.token_id): each.logprob for each in first},
        )


class CompletionsRoute:
    """``/v1/completions``."""

    path = "/v1/completions"
    versioned = False
    abort_path: str | None = None

    def body(
        self, model: str, request: GenerationRequest, name: str, alternatives: int = 0
    ) -> dict[str, object]:
        return _sampling(request) | {
            "model": model,
            "request_id": name,
            "prompt": list(request.token_ids),
            "return_token_ids": True,
            "logprobs": alternatives,
            "skip_special_tokens": False,
        }

    def read(self, answer: bytes) -> Sampled:
        read = _read(_CompletionsAnswer, answer)
        choice = read.choices[0]
        logprobs = choice.logprobs.token_logprobs if choice.logprobs is not None else ()
        tops = choice.logprobs.top_logprobs if choice.logprobs is not None else None
        return Sampled(_generation(choice, logprobs, (), read.usage), (tops[0] or {}) if tops else {})


ROUTES: tuple[TokenRoute, ...] = (GenerateRoute(), CompletionsRoute())
"""The routes in the order in which they are tried."""


def samples_plainly(sampling: Sampling) -> bool:
    """Return whether the tokens are drawn from the model's own distribution; greedy counts as well."""
    return sampling.temperature in {0.0, 1.0} and sampling.top_p == 1.0 and not sampling.top_k


def _sampling(request: GenerationRequest) -> dict[str, object]:
    """Return all sampling parameters: a server takes missing ones from the model's files."""
    sampling = request.sampling
    return {
        "n": 1,
        "max_tokens": request.max_tokens,
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "top_k": sampling.top_k or 0,
        "min_p": 0.0,
        "presence_penalty": 0.0,
        "frequency_penalty": 0.0,
        "repetition_penalty": 1.0,
        "seed": request.seed,
        "stop_token_ids": list(sampling.stop_ids),
        "ignore_eos": True,
    }


class _Alternative(BaseModel):
    token_id: int
    logprob: float


class _Position(BaseModel):
    logprob: float
    top_logprobs: tuple[_Alternative, ...] = ()


class _Content(BaseModel):
    content: tuple[_Position, ...] | None = None


class _Span(BaseModel):
    version: str
    start: int
    end: int


class _Choice(BaseModel):
    finish_reason: str | None = None
    token_ids: tuple[int, ...]


class _GenerateChoice(_Choice):
    logprobs: _Content | None = None
    weight_versions: tuple[_Span, ...] | None = None


class _CompletionLogprobs(BaseModel):
    token_logprobs: tuple[float, ...] = ()
    top_logprobs: tuple[dict[str, float] | None, ...] | None = None


class _CompletionChoice(_Choice):
    logprobs: _CompletionLogprobs | None = None


class _PromptDetails(BaseModel):
    cached_tokens: int | None = None


class _Usage(BaseModel):
    prompt_tokens_details: _PromptDetails | None = None
    """Of a server with ``--enable-prompt-tokens-details``."""


class _GenerateAnswer(BaseModel):
    usage: _Usage | None = None
    choices: Annotated[tuple[_GenerateChoice, ...], Field(min_length=1)]


class _CompletionsAnswer(BaseModel):
    usage: _Usage | None = None
    choices: Annotated[tuple[_CompletionChoice, ...], Field(min_length=1)]


def _read(kind: type[AnswerT], answer: bytes) -> AnswerT:
    try:
        return kind.model_validate_json(answer)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"])
        if field.endswith("token_ids"):
            raise EngineError(
                "the server returns no token ids; it must be a vLLM that supports return_token_ids"
            ) from error
        raise EngineError(f"the server's answer is not vLLM's: {field or 'body'}: {first['msg']}") from error


def _generation(
    choice: _Choice, logprobs: tuple[float, ...], spans: tuple[VersionSpan, ...], usage: _Usage | None
) -> Generation:
    finish = _FINISHES.get(choice.finish_reason or "")
    if finish is None:
        raise EngineError(f"the server ended a request with {choice.finish_reason!r}")
    if len(logprobs) != len(choice.token_ids):
        raise EngineError(
            f"the server returned {len(choice.token_ids)} token ids and {len(logprobs)} log-probabilities"
        )
    details = None if usage is None else usage.prompt_tokens_details
    cached = None if details is None else details.cached_tokens
    return Generation(choice.token_ids, logprobs, finish, spans, cached)


def _version(label: str) -> int:
    if label == _FIRST_VERSION:
        return 0
    if not label.isdecimal():
        raise EngineError(
            f"the server labels its weights {label!r}; weight versions must be whole numbers, "
            'as in POST /update_weight_version {"new_version": "12"}'
        )
    return int(label)
