"""A vLLM server without a model: its two token routes over real HTTP, with the faults that a test plans."""

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field

from aiohttp import web

CONTEXT = 64


@dataclass
class FakeVllmServer:
    """Samples ascending numbers after the prompt's last token."""

    generate: bool = True
    """Whether it was started with --enable-scale-out."""
    completions: bool = True
    token_ids: bool = True
    """Whether it knows return_token_ids."""
    processed: bool = False
    """Whether it was started with --logprobs-mode processed_logprobs."""
    models: tuple[str, ...] = ("m",)
    version: str = "default"
    key: str | None = None
    cached: int | None = None
    """Cached prompt tokens, one more for each request, of a server with --enable-prompt-tokens-details."""
    tokenizer: Callable[[str], list[int]] | None = None
    tokenizes: bool = True
    """Whether its tokenizer answers at all."""
    faults: list[int | str] = field(default_factory=list)
    """Of the next requests for tokens: a status, "drop" the connection, or "garbage"."""
    before_fault_s: float = 0.0
    """Time that a request takes until its fault."""
    cut: list[int] = field(default_factory=list)
    """The next requests come back aborted after so many tokens."""
    slow: asyncio.Event | None = None
    """Requests wait for it, or for their abortion, which returns two tokens."""
    asked: list = field(default_factory=list)
    """Bodies of requests for tokens."""
    sessions: list = field(default_factory=list)
    aborted: dict = field(default_factory=dict)
    """Whether slow requests are, by name; those of unknown names have no effect."""
    gone: int = 0
    """Requests that their client gave up."""

    async def _models(self, request):
        if self.key is not None and request.headers.get("Authorization") != f"Bearer {self.key}":
            return web.json_response({"error": "Unauthorized"}, status=401)
        data = [{"id": name, "max_model_len": CONTEXT} for name in self.models]
        return web.json_response({"object": "list", "data": data})

    async def _generate(self, request):
        if not self.generate:
            return _error(403, "Scale-out endpoints are disabled.")
        body = await request.json()
        sampled = await self._sampled(request, body, body["token_ids"], body["sampling_params"])
        if isinstance(sampled, web.Response):
            return sampled
        ids, logprobs, finish, tops = sampled
        content = [{"token_id": token, "logprob": at} for token, at in zip(ids, logprobs, strict=True)]
        for position in content[:1]:
            position["top_logprobs"] = [{"token_id": int(token), "logprob": at} for token, at in tops.items()]
        spans = [{"version": self.version, "start": 0, "end": len(ids)}]
        choice = {"token_ids": ids, "logprobs": {"content": content}, "finish_reason": finish}
        return web.json_response({"choices": [choice | {"weight_versions": spans}], "usage": self._usage()})

    async def _complete(self, request):
        if not self.completions:
            return _error(404, "Not Found")
        body = await request.json()
        sampled = await self._sampled(request, body, body["prompt"], body)
        if isinstance(sampled, web.Response):
            return sampled
        ids, logprobs, finish, tops = sampled
        choice = {"text": "...", "finish_reason": finish}
        choice["logprobs"] = {"token_logprobs": logprobs, "top_logprobs": [tops] * len(ids)}
        choice |= {"token_ids": ids} if self.token_ids else {}
        return web.json_response({"choices": [choice], "usage": self._usage()})

    def _usage(self):
        if self.cached is None:
            return {"prompt_tokens_details": None}
        self.cached += 1
        return {"prompt_tokens_details": {"cached_tokens": self.cached - 1}}

    async def _tokenize(self, request):
        if self.tokenizer is None:
            return _error(404, "Not Found")
        body = await request.json()
        if not self.tokenizes:
            await asyncio.Event().wait()
        assert body["add_special_tokens"] is False
        return web.json_response({"tokens": self.tokenizer(body["prompt"])})

    async def _abort(self, request):
        for name in (await request.json())["request_ids"]:
            if name in self.aborted:
                self.aborted[name].set()
        return web.Response()

    async def _sampled(self, request, body, prompt, params):
        self.asked.append(body)
        self.sessions.append(request.headers.get("X-Session-ID"))
        fault = self.faults.pop(0) if self.faults else None
        if fault is not None:
            await asyncio.sleep(self.before_fault_s)
        if fault == "drop":
            request.transport.close()
        if isinstance(fault, int):
            return _error(fault, "planned")
        if fault is not None:
            return web.Response(text="<html>")
        count, finish = params["max_tokens"], "stop" if params["stop_token_ids"] else "length"
        if self.cut:
            count, finish = self.cut.pop(0), "abort"
        elif self.slow is not None and not await self._waited(f"generate-tokens-{body['request_id']}"):
            count, finish = 2, "abort"
        ids = [prompt[-1] + 1 + step for step in range(count)]
        heat = params["temperature"] if self.processed else 1.0
        return ids, [-float(token) for token in ids], finish, {"1": -0.5 / heat, "2": -1.5 / heat}

    async def _waited(self, name):
        """Whether the test let the request go on, before it was aborted."""
        abort = self.aborted.setdefault(name, asyncio.Event())
        waits = [asyncio.create_task(event.wait()) for event in (self.slow, abort)]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            self.gone += 1
            raise
        finally:
            for wait in waits:
                wait.cancel()
        return not abort.is_set()

    @contextlib.asynccontextmanager
    async def serving(self):
        """The address at which it answers while the block runs."""
        app = web.Application(client_max_size=2**26)
        app.add_routes(
            [
                web.get("/v1/models", self._models),
                web.post("/inference/v1/generate", self._generate),
                web.post("/inference/v1/abort_requests", self._abort),
                web.post("/v1/completions", self._complete),
                web.post("/tokenize", self._tokenize),
            ]
        )
        runner = web.AppRunner(app, handler_cancellation=True, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        try:
            yield f"http://127.0.0.1:{runner.addresses[0][1]}"
        finally:
            await runner.cleanup()


def _error(status, message):
    return web.json_response({"error": {"message": message, "code": status}}, status=status)
