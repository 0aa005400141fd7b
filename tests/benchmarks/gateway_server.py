"""The processes that the gateway's benchmark asks: a gateway over a stub, a stub of vLLM, and a bare server.

    python -m tests.benchmarks.gateway_server ROLE MODEL_FOLDER ...

Each prints its address, and ends with its standard input. A gateway then prints what each call spent where.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from aiohttp import web

from tests.benchmarks.gateway_agents import ANSWER
from trainer.chat import ChatTokenizer
from trainer.config.model import ChatConfig
from trainer.engines.generation import Finish, Generation, GenerationRequest
from trainer.engines.http_policy import open_http_policy
from trainer.model_gateway.prompts import PromptPolicy
from trainer.model_gateway.stand_alone.service import serve_sessions
from trainer.model_gateway.stand_alone.settings import StandAloneSettings
from trainer.types import VersionSpan

CONTEXT = 32_768
CHAT = ChatConfig.model_validate({"tools": "prompt", "tool_format": "hermes"})


class TimedChat(ChatTokenizer):
    """A chat tokenizer that adds up the seconds that it takes."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, CHAT)
        self.took_s = 0.0

    def opening(self, *given: Any) -> list[int]:
        return self._timed(super().opening, *given)

    def continuation(self, *given: Any) -> list[int]:
        return self._timed(super().continuation, *given)

    def said(self, *given: Any) -> str:
        return self._timed(super().said, *given)

    def parse(self, *given: Any, **named: Any) -> Any:
        return self._timed(super().parse, *given, **named)

    def drifted(self, *given: Any) -> bool:
        return self._timed(super().drifted, *given)

    def _timed(self, work: Any, *given: Any, **named: Any) -> Any:
        began = time.perf_counter()
        try:
            return work(*given, **named)
        finally:
            self.took_s += time.perf_counter() - began


class StubPolicy:
    """Answers every call with the same tokens, at once or after a while."""

    def __init__(self, chat: ChatTokenizer, wait_s: float = 0.0) -> None:
        ids = tuple(chat.turn(ANSWER))
        self._generation = Generation(ids, (-0.5,) * len(ids), Finish.STOP, (VersionSpan(0, len(ids), 1),))
        self._wait_s = wait_s

    async def generate(self, request: GenerationRequest) -> Generation:
        await asyncio.sleep(self._wait_s)
        return self._generation


class TimedPolicy:
    """Notes for each call what the engine took, and what the tokenizer took since the last."""

    def __init__(self, policy: Any, chat: TimedChat) -> None:
        self._policy = policy
        self._chat = chat
        self.engine_s: list[float] = []
        self.tokenizing_s: list[float] = []

    async def generate(self, request: GenerationRequest) -> Generation:
        self.tokenizing_s.append(self._chat.took_s)
        began = time.perf_counter()
        generation = await self._policy.generate(request)
        self.engine_s.append(time.perf_counter() - began)
        return generation

    def figures(self) -> dict[str, list[float]]:
        """Seconds of each call; parsing of a call's answer counts for the call, rendering too."""
        return {"engine_s": self.engine_s, "tokenizing_total_s": [*self.tokenizing_s, self._chat.took_s]}


async def _gateway(folder: Path, prompts: str, engine: str, wait_s: float) -> None:
    chat = TimedChat(folder)
    async with contextlib.AsyncExitStack() as stack:
        policy: Any = StubPolicy(chat, wait_s)
        if engine != "in_process":
            policy = await stack.enter_async_context(open_http_policy(engine))
        timed = TimedPolicy(policy, chat)
        settings = StandAloneSettings(
            model=folder, engine=engine, admin_key="admin", prompts=PromptPolicy(prompts)
        )
        url = await stack.enter_async_context(serve_sessions(timed, chat, CONTEXT, settings))
        # As the command does: no garbage collection visits what was imported.
        gc.collect()
        gc.freeze()
        began = time.process_time()
        await _until_closed(url)
        _say({**timed.figures(), "cpu_s": time.process_time() - began, "peak_rss_mb": _peak_rss_mb()})


async def _stub(folder: Path) -> None:
    """Serve vLLM's token route with a fixed answer."""
    ids = ChatTokenizer(folder, CHAT).turn(ANSWER)
    choice = {
        "index": 0,
        "token_ids": ids,
        "finish_reason": "stop",
        "logprobs": {"content": [{"token_id": token, "logprob": -0.5, "rank": 1} for token in ids]},
        "weight_versions": [{"version": "1", "start": 0, "end": len(ids)}],
    }
    fixed = json.dumps({"choices": [choice]}).encode()
    models = json.dumps({"data": [{"id": "policy", "max_model_len": CONTEXT}]}).encode()
    async with _server({"/inference/v1/generate": fixed, "/v1/models": models}) as url:
        await _until_closed(url)


async def _bare(size: int) -> None:
    """Serve a fixed answer of that many bytes: what HTTP itself costs."""
    async with _server({"/v1/chat/completions": b"{" + b" " * (size - 2) + b"}"}) as url:
        await _until_closed(url)


@contextlib.asynccontextmanager
async def _server(answers: dict[str, bytes]) -> AsyncIterator[str]:
    async def answer(request: web.Request) -> web.Response:
        await request.read()
        return web.Response(body=answers[request.path], content_type="application/json")

    application = web.Application(client_max_size=2**26)
    for path in answers:
        application.router.add_route("*", path, answer)
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, backlog=1024).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


async def _until_closed(url: str) -> None:
    _say({"url": url})
    await asyncio.to_thread(sys.stdin.read)


def _say(document: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(document) + "\n")
    sys.stdout.flush()


def _peak_rss_mb() -> float:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    return 0.0


def main() -> None:
    """Serve as the first word says."""
    role, *words = sys.argv[1:]
    if role == "gateway":
        folder, prompts, engine, wait_s = words
        asyncio.run(_gateway(Path(folder), prompts, engine, float(wait_s)))
    elif role == "stub":
        asyncio.run(_stub(Path(words[0])))
    else:
        asyncio.run(_bare(int(words[0])))


if __name__ == "__main__":
    main()
