"""Sample with a vLLM server that someone else runs, over HTTP: any vLLM that returns token ids will do.

The policy asks the server which route it has and prefers the one that returns weight versions. It never
streams. It repeats requests that were not answered: nothing is changed by sampling twice.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import TYPE_CHECKING
from uuid import uuid4

import aiohttp
from pydantic import BaseModel, ValidationError

from trainer.errors import EngineError, Stalled
from trainer.types import EpisodeKey, TaskRef

from .continuation import Continuation
from .generation import Finish, Generation, GenerationRequest, Sampling
from .http_requests import HttpRequests
from .http_routes import ROUTES, samples_plainly
from .time_limit import aborted_after

if TYPE_CHECKING:
    from .http_requests import HttpAnswer
    from .http_routes import TokenRoute

_NO_ROUTE = frozenset({403, 404, 405, 501})
"""Statuses of a route that a server does not have; vLLM forbids those that its options do not enable."""
_PROBE = tuple(range(1, 9))
"""A prompt that every vocabulary has. The first token is padding in some models, and predicts nothing."""
_ALTERNATIVES = 5
_COLD = 0.05
"""A temperature that changes every log-probability that it is applied to."""
_SAME = 0.1
"""Greatest difference of log-probabilities that count as the same."""
_KEEP_ALIVE_S = 4.0
"""Less than the 5 seconds after which vLLM closes an idle connection."""


@dataclass(frozen=True, slots=True)
class HttpLimits:
    """Time limits of an HTTP policy, in seconds."""

    generate_s: float = 300.0
    """Of a turn without a limit of its own."""
    answer_s: float = 15.0
    """Added to a turn's limit, for the server to return what it sampled."""
    connect_s: float = 10.0
    unreachable_s: float = 60.0
    """Of a server that refuses connections or answers that it is overloaded."""
    probe_s: float = 120.0
    """Of the first answers, which may compile the model's kernels."""
    tokenize_s: float = 30.0
    """Of the tokens of a text."""
    retry_s: float = 0.25
    """The first pause before a request is repeated; each further one is twice as long, up to 5 seconds."""


class HttpPolicy:
    """A Policy over the HTTP routes of one server, made by ``open_http_policy``."""

    def __init__(self, http: aiohttp.ClientSession, limits: HttpLimits) -> None:
        self._requests = HttpRequests(http, retry_s=limits.retry_s, unreachable_s=limits.unreachable_s)
        self._limits = limits
        self._route: TokenRoute = ROUTES[0]
        self._raw = False
        self.model = ""
        """The name under which the server has the model."""
        self.context = 0
        """Greatest number of tokens of a sequence."""

    @property
    def route(self) -> str:
        """The path of the route that samples."""
        return self._route.path

    @property
    def versioned(self) -> bool:
        """Whether generations carry weight versions."""
        return self._route.versioned

    async def probe(self, model: str | None) -> None:
        """Find the model, the route that samples, and which log-probabilities it returns.

        Raises:
            EngineError: the server has no such model, no such route, or returns no token ids.
            EngineLost: it cannot be reached.
            Stalled: it did not answer in time.
        """
        served = await self._served()
        names = [each.id for each in served]
        found = [each for each in served if model is None or each.id == model]
        if len(found) != 1:
            wrong = "the server has several models" if model is None else f"the server has no model {model!r}"
            raise EngineError(f"{wrong}; name one of: {', '.join(names) or 'none'}")
        self.model = found[0].id
        if found[0].max_model_len is None:
            raise EngineError("the server does not say max_model_len in /v1/models; it must be a vLLM")
        self.context = found[0].max_model_len
        self._route = await self._find_route()
        self._raw = await self._returns_raw()

    async def generate(self, request: GenerationRequest) -> Generation:
        """Sample one turn; at its limit it ends with the tokens so far, where the server can do that.

        Raises:
            EngineError: the server refused the request, or would return log-probabilities of another
                distribution than the one that is sampled from.
            EngineLost: the server cannot be reached.
            Stalled: the turn was not sampled within its limit.
        """
        if self._raw and not samples_plainly(request.sampling):
            raise EngineError(
                "the server returns log-probabilities before temperature, top_p and top_k; start it with "
                "--logprobs-mode processed_logprobs, or sample with temperature 1, top_p 1 and no top_k"
            )
        room = min(request.max_tokens, self.context - len(request.token_ids))
        if room <= 0:
            return Generation((), (), Finish.LENGTH, ())
        limit_s = self._limits.generate_s if request.limit_s is None else request.limit_s
        late = (
            f"turn {request.key.turn} of episode {request.key.trajectory_id} was not sampled within "
            f"{limit_s:g} s"
        )
        deadline = time.monotonic() + limit_s
        grace_s = self._limits.answer_s if self._route.abort_path else 0.0
        so_far = Continuation(replace(request, max_tokens=room))
        refusals: list[str] = []
        try:
            async with asyncio.timeout(limit_s + grace_s):
                while not so_far.complete:
                    part = await self._part(so_far.next_request(), deadline, refusals)
                    so_far = so_far.then(part)
                    if part.finish is not Finish.ABORT:
                        return so_far.ended(part.finish)
                    if time.monotonic() >= deadline:
                        break
                    # A server that loads weights may end requests at once, again and again.
                    await asyncio.sleep(0 if part.token_ids else self._limits.retry_s)
        except TimeoutError as error:
            last = f"; its last failed attempt: {refusals[-1]}" if refusals else ""
            raise Stalled(late + last) from error
        if not so_far.token_ids:
            raise Stalled(late)
        return so_far.ended(Finish.LENGTH if so_far.complete else Finish.TIMEOUT)

    async def tokenize(self, text: str) -> tuple[int, ...] | None:
        """Return the server's tokens of a text; None where it has no tokenizer or no such route.

        Raises EngineLost when it cannot be reached, Stalled when it does not answer in time.
        """
        body = {"model": self.model, "prompt": text, "add_special_tokens": False}
        limit_s = self._limits.tokenize_s
        try:
            async with asyncio.timeout(limit_s):
                answer = await self._requests.send("POST", "/tokenize", body)
        except TimeoutError as error:
            raise Stalled(f"the server did not answer /tokenize within {limit_s:g} s") from error
        if answer.status != HTTPStatus.OK:
            return None
        try:
            return _Tokens.model_validate_json(answer.body).tokens
        except ValidationError:
            return None

    async def _part(self, request: GenerationRequest, deadline: float, refusals: list[str]) -> Generation:
        name = uuid4().hex
        body = self._route.body(self.model, request, name)
        limit_s = max(0.0, deadline - time.monotonic()) if self._route.abort_path else None
        async with aborted_after(limit_s, lambda: self._abort(name)):
            headers = {"X-Session-ID": request.key.trajectory_id}
            answer = await self._requests.send("POST", self._route.path, body, headers, refusals)
        return self._route.read(answer.accepted()).generation

    async def _abort(self, name: str) -> None:
        """End a request. vLLM knows it by the route's prefix and its name."""
        with contextlib.suppress(EngineError):
            await self._requests.send(
                "POST", self._route.abort_path or "", {"request_ids": [f"generate-tokens-{name}"]}
            )

    async def _served(self) -> tuple[_Served, ...]:
        answer = await self._requests.send("GET", "/v1/models")
        try:
            return _Models.model_validate_json(answer.accepted()).data
        except ValidationError as error:
            raise EngineError("the answer of /v1/models is no list of models; is it a vLLM?") from error

    async def _find_route(self) -> TokenRoute:
        refusals = []
        for route in ROUTES:
            answer = await self._try_out(route, 1.0)
            if answer.status not in _NO_ROUTE:
                route.read(answer.accepted())
                return route
            refusals.append(f"{route.path}: {answer.refusal}")
        raise EngineError("the server has no route that takes token ids; " + "; ".join(refusals))

    async def _try_out(self, route: TokenRoute, temperature: float) -> HttpAnswer:
        """Sample one token."""
        key = EpisodeKey("probe", TaskRef("", "", ""), 0)
        request = GenerationRequest(key, _PROBE, 1, Sampling(temperature=temperature), seed=0)
        body = route.body(self.model, request, uuid4().hex, alternatives=_ALTERNATIVES)
        return await self._requests.send("POST", route.path, body)

    async def _returns_raw(self) -> bool:
        """Return whether temperature has no effect on log-probabilities, as is vLLM's default."""
        plain, cold = [
            self._route.read((await self._try_out(self._route, temperature)).accepted()).alternatives
            for temperature in (1.0, _COLD)
        ]
        return not any(abs(plain[token] - cold[token]) > _SAME for token in plain.keys() & cold.keys())


@contextlib.asynccontextmanager
async def open_http_policy(
    url: str, *, api_key: str | None = None, model: str | None = None, limits: HttpLimits | None = None
) -> AsyncIterator[HttpPolicy]:
    """Connect to a vLLM server and find out what it can do.

    Args:
        url: the server's address, with or without ``/v1``.
        api_key: what the server was started with as ``--api-key``.
        model: the served model's name; needed where the server has several, such as LoRA adapters.
        limits: time limits.

    Raises:
        EngineError: the server cannot serve as a policy; the message says what it lacks.
        EngineLost: it cannot be reached.
        Stalled: it did not answer in time.
    """
    limits = limits or HttpLimits()
    base = url.rstrip("/").removesuffix("/v1") + "/"
    http = aiohttp.ClientSession(
        base,
        connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=_KEEP_ALIVE_S),
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=limits.connect_s),
        headers={"Authorization": f"Bearer {api_key}"} if api_key else None,
    )
    async with http:
        policy = HttpPolicy(http, limits)
        try:
            async with asyncio.timeout(limits.probe_s):
                await policy.probe(model)
        except TimeoutError as error:
            raise Stalled(f"{url} did not answer within {limits.probe_s:g} s") from error
        yield policy


class _Served(BaseModel):
    id: str
    max_model_len: int | None = None


class _Models(BaseModel):
    data: tuple[_Served, ...]


class _Tokens(BaseModel):
    tokens: tuple[int, ...]
