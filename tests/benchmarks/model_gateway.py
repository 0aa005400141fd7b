"""What the model gateway adds to a call: latency and CPU, with a policy that costs nothing.

    python -m tests.benchmarks.model_gateway MODEL --output FILE.json

MODEL is a Hugging Face folder, for its tokenizer. Agents are tasks of another process: each repeats its
whole conversation with every call, as agents do. ``prompt_ms`` is the part of a call in which its prompt is
tokenised; ``bare_ms`` is a call of the same client to a server that answers with a constant.
"""

import argparse
import asyncio
import json
import multiprocessing
import sys
import time
from pathlib import Path

import aiohttp
from aiohttp import web

from tests.benchmarks import training_runs as runs
from trainer.batches.build import freeze_startup_objects
from trainer.chat import ChatTokenizer
from trainer.config.model import ChatConfig
from trainer.engines.generation import Finish, Generation, GenerationRequest, Sampling
from trainer.model_gateway.budget import SessionLimits
from trainer.model_gateway.server import ModelGateway
from trainer.model_gateway.sessions import Sessions
from trainer.types import EpisodeKey, TaskRef, VersionSpan

PATH = "/v1/chat/completions"
SAID = "I look at it again, and then I say what I found here."
HEARD = "Go on. " + "This is what the tool returned. " * 8
LIMITS = SessionLimits(turns=10**6, context_tokens=10**6, turn_tokens=10**4)


class ReadyPolicy:
    """Says what was tokenised beforehand."""

    def __init__(self, chat: ChatTokenizer) -> None:
        self._ids = tuple(chat.turn(SAID))

    async def generate(self, request: GenerationRequest) -> Generation:
        ids = self._ids
        return Generation(ids, (-0.5,) * len(ids), Finish.STOP, (VersionSpan(0, len(ids), 0),))


class TimedChat(ChatTokenizer):
    """Notes how long it takes to make prompts."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, ChatConfig(tools="none"))
        self.seconds: list[float] = []

    def opening(self, messages, tools=()):
        return self._timed(super().opening, messages, tools)

    def continuation(self, messages, last=None):
        return self._timed(super().continuation, messages, last)

    def _timed(self, work, *arguments):
        began = time.perf_counter()
        made = work(*arguments)
        self.seconds.append(time.perf_counter() - began)
        return made


def main() -> int:
    options = _options()
    began = time.monotonic()
    figures = asyncio.run(measure(options))
    runs.finish("model_gateway", figures, began, options.output)
    return 0


async def measure(options: argparse.Namespace) -> dict[str, object]:
    chat = TimedChat(options.model)
    sessions = Sessions(ReadyPolicy(chat), chat)
    gateway = ModelGateway(sessions)
    url = await gateway.start()
    bare, runner = await _bare_server()
    freeze_startup_objects()  # as the process that plays episodes does
    rows = []
    try:
        for agents in options.agents:
            keys = [_open(sessions) for _ in range(agents)]
            await _driven(url, [_open(sessions)], 5)
            chat.seconds.clear()
            row = await _driven(url, keys, options.turns)
            row["prompt_ms"] = _quantiles(chat.seconds)
            row["bare_ms"] = (await _driven(bare, keys, options.turns))["ms"]
            rows.append({"agents": agents, **row})
    finally:
        await gateway.close()
        await runner.cleanup()
    return {"turns": options.turns, "rows": rows}


def _open(sessions: Sessions) -> str:
    key = EpisodeKey("0.0", TaskRef("echo", "train", "t"), 0)
    return sessions.open(key, Sampling(), LIMITS, checks=lambda number: number % 8 == 0).api_key


async def _bare_server() -> tuple[str, web.AppRunner]:
    answer = json.dumps({"choices": [{"message": {"role": "assistant", "content": SAID}}]})

    async def constant(request: web.Request) -> web.Response:
        await request.read()
        return web.Response(text=answer, content_type="application/json")

    application = web.Application(client_max_size=2**26)
    application.router.add_post(PATH, constant)
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    return f"http://127.0.0.1:{runner.addresses[0][1]}", runner


async def _driven(url: str, keys: list[str], turns: int) -> dict[str, object]:
    """Let agents of another process make their calls, and measure them and this process."""
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    process = context.Process(target=_agents, args=(url, keys, turns, results))
    process.start()
    await asyncio.to_thread(results.get)  # it has started
    cpu = time.process_time()
    seconds, times = await asyncio.to_thread(results.get)
    cpu = time.process_time() - cpu
    process.join()
    return {
        "calls_per_s": len(times) / seconds,
        "server_cpu_ms_a_call": 1000 * cpu / len(times),
        "ms": _quantiles(times),
    }


def _agents(url: str, keys: list[str], turns: int, results: multiprocessing.Queue) -> None:
    asyncio.run(_play(url, keys, turns, results))


async def _play(url: str, keys: list[str], turns: int, results: multiprocessing.Queue) -> None:
    times: list[float] = []

    async def agent(client: aiohttp.ClientSession, key: str) -> None:
        messages = [{"role": "user", "content": HEARD}]
        headers = {"Authorization": f"Bearer {key}"}
        for _ in range(turns):
            body = json.dumps({"model": "policy", "messages": messages}).encode()
            began = time.perf_counter()
            async with client.post(url + PATH, data=body, headers=headers) as response:
                document = json.loads(await response.read())
            times.append(time.perf_counter() - began)
            answer = document["choices"][0]["message"]
            messages += [answer, {"role": "user", "content": HEARD}]

    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as client:
        results.put(None)
        began = time.perf_counter()
        await asyncio.gather(*(agent(client, key) for key in keys))
        results.put((time.perf_counter() - began, times))


def _quantiles(seconds: list[float]) -> dict[str, float]:
    ordered = sorted(seconds)
    return {
        "p50": 1000 * ordered[len(ordered) // 2],
        "p95": 1000 * ordered[int(len(ordered) * 0.95)],
    }


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__.split("\n", 1)[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("model", type=Path)
    parser.add_argument("--agents", type=int, nargs="+", default=[1, 16, 256], help="at the same time")
    parser.add_argument("--turns", type=int, default=30, help="of each agent")
    parser.add_argument("--output", "-o", type=Path)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(runs.ended(main))
