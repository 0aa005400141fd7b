"""Measure how many turns a second the batch producer can carry: its CPU per turn, with a policy at no cost.

    python -m tests.benchmarks.batches_ceiling MODEL --output FILE.json

MODEL is a Hugging Face folder, for its tokenizer. The producer is the real one: player, chat template,
tokenizer, client, journal, exports, batches. The policy gives turns that were tokenized before the clock
starts, and the service is a process of its own that answers with prepared texts. Counted is the CPU of the
producer's process and of its workers, the service's is not. The first step, which warms up, is not counted.
"""

import argparse
import asyncio
import json
import multiprocessing
import resource
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from aiohttp import web

from tests.benchmarks import training_runs as runs
from trainer.batches.build import build
from trainer.batches.players import freeze_startup_objects, open_client
from trainer.batches.producer import BatchProducer
from trainer.chat import ChatTokenizer
from trainer.config import RunConfig
from trainer.config.model import ChatConfig
from trainer.engines.generation import Finish, Generation, GenerationRequest
from trainer.types import VersionSpan

PROSE = sorted(runs.REPOSITORY.glob("docs/**/*.md"))
CORES = 16


@dataclass(frozen=True)
class Sizes:
    """Of the experiment."""

    turns: int
    said: int
    heard: int


def texts(chat: ChatTokenizer, tokens: int, count: int) -> list[str]:
    """Different stretches of this project's own documentation, so many tokens each."""
    ids = chat.encode("\n".join(file.read_text() for file in PROSE))
    stride = max(1, (len(ids) - tokens) // count)
    return [chat.decode(ids[place * stride : place * stride + tokens]) for place in range(count)]


class ReadyPolicy:
    """Says what was tokenized beforehand."""

    def __init__(self, chat: ChatTokenizer, said: list[str]) -> None:
        self.version = 0
        self.turns = 0
        self._lines = [tuple(chat.turn(text)) for text in said]
        dice = np.random.default_rng(0)
        drawn = [-dice.exponential(size=len(line)).astype(np.float32) for line in self._lines]
        self._logprobs = [tuple(each.tolist()) for each in drawn]

    async def generate(self, request: GenerationRequest) -> Generation:
        await asyncio.sleep(0)
        self.turns += 1
        place = (request.key.seed + request.key.turn) % len(self._lines)
        line = self._lines[place]
        return Generation(
            line, self._logprobs[place], Finish.STOP, (VersionSpan(0, len(line), self.version),)
        )


def serve(port: int, heard: list[str], turns: int) -> None:
    """The service: prepared answers to the five verbs."""
    answers = [json.dumps({"role": "user", "content": text}) for text in heard]
    made = [0]

    async def create(request: web.Request) -> web.Response:
        made[0] += 1
        given = json.loads(await request.read())
        name = given.get("instance_id") or f"i{made[0]}"
        return answer(
            f'{{"instance_id":"{name}","environment":"echo","task_id":"{given["task_id"]}",'
            f'"observation":{{"messages":[{answers[made[0] % len(answers)]}]}}}}'
        )

    async def step(request: web.Request) -> web.Response:
        given = json.loads(await request.read())
        index = given["step_index"]
        return answer(
            f'{{"instance_id":"{given["instance_id"]}","step_index":{index},"reward":0.0,'
            f'"observation":{{"messages":[{answers[(made[0] + index) % len(answers)]}]}},'
            f'"terminated":{json.dumps(index + 1 >= turns)},"truncated":false}}'
        )

    async def evaluate(request: web.Request) -> web.Response:
        name = json.loads(await request.read())["instance_id"]
        score = sum(name.encode()) % 2
        return answer(f'{{"instance_id":"{name}","score":{score},"success":{json.dumps(bool(score))}}}')

    async def release(request: web.Request) -> web.Response:
        name = json.loads(await request.read())["instance_id"]
        return answer(f'{{"instance_id":"{name}","released":true}}')

    async def profile(_: web.Request) -> web.Response:
        ids = json.dumps([f"t{place}" for place in range(1000)])
        return answer(f'{{"environment":"echo","split":"train","task_ids":{ids},"total":1000}}')

    async def stats(_: web.Request) -> web.Response:
        return answer('{"supervisors":[],"instances":0,"queued":0}')

    application = web.Application(client_max_size=2**26)
    application.router.add_post("/v1/create_instance", create)
    application.router.add_post("/v1/step", step)
    application.router.add_post("/v1/evaluate", evaluate)
    application.router.add_post("/v1/release_instance", release)
    application.router.add_post("/v1/get_env_profile", profile)
    application.router.add_get("/v1/stats", stats)
    web.run_app(application, host="127.0.0.1", port=port, print=None, access_log=None)


def answer(body: str) -> web.Response:
    return web.Response(text=body, content_type="application/json")


def cpu_s() -> float:
    """Of this process and the children that have ended."""
    mine, ended = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return mine.ru_utime + mine.ru_stime + ended.ru_utime + ended.ru_stime


def main() -> int:
    options = _options()
    began = time.monotonic()
    sizes = Sizes(options.turns, options.said, options.heard)
    chat = ChatTokenizer(options.model, ChatConfig(tools="none"))
    heard = texts(chat, sizes.heard, 97)
    service = multiprocessing.get_context("fork").Process(
        target=serve, args=(options.port, heard, sizes.turns), daemon=True
    )
    service.start()
    try:
        figures = asyncio.run(measure(options, sizes, ReadyPolicy(chat, texts(chat, sizes.said, 89))))
    finally:
        service.kill()
        service.join()
    runs.finish("batches_ceiling", figures, began, options.output)
    return 0


async def measure(options: argparse.Namespace, sizes: Sizes, policy: ReadyPolicy) -> dict[str, object]:
    context = (sizes.turns + 1) * (sizes.said + sizes.heard + 64)
    config = RunConfig.model_validate(
        {
            "steps": options.steps,
            "chat": {"tools": "none"},
            "tasks": {"environment": "echo"},
            "rollout": {
                "groups": options.groups,
                "group_size": options.group_size,
                "max_turns": sizes.turns,
                "max_context_tokens": context,
                "max_staleness": options.staleness,
                "sampling": {"max_turn_tokens": sizes.said + 16},
            },
            "algorithm": {"drop_flat_groups": False},
            "tracking": {"trajectories": options.trajectories},
        }
    )
    with tempfile.TemporaryDirectory(prefix="batches-") as name:
        client = open_client(config.service, f"http://127.0.0.1:{options.port}")
        producer = await build(config, Path(name), options.model, client, lambda _: policy)
        freeze_startup_objects()
        try:
            return await _steps(producer, policy, options, sizes)
        finally:
            await producer.close()


async def _steps(
    producer: BatchProducer, policy: ReadyPolicy, options: argparse.Namespace, sizes: Sizes
) -> dict[str, object]:
    loop = asyncio.get_running_loop()
    lags: list[float] = []
    watching = asyncio.create_task(_lag(lags))
    marks: list[tuple[float, float, int]] = []
    await producer.weights_synced(0)
    tokens = 0
    for step in range(options.steps):
        batch = await producer.get_batch(step)
        marks.append((loop.time(), cpu_s(), policy.turns))
        tokens = sum(len(sample) for sample in batch.samples)
        policy.version = step + 1
        if step == 0:
            lags.clear()
        await producer.weights_synced(step + 1)
    watching.cancel()
    (clock0, cpu0, turns0), (clock1, cpu1, turns1) = marks[0], marks[-1]
    turns, cpu = turns1 - turns0, cpu1 - cpu0
    lags.sort()
    return {
        "sizes": {**vars(options), "model": str(options.model), "output": str(options.output)},
        "turns": turns,
        "tokens_a_batch": tokens,
        "tokens_a_turn": tokens / (options.groups * options.group_size * sizes.turns),
        "seconds": clock1 - clock0,
        "turns_per_s": turns / (clock1 - clock0),
        "cpu_ms_a_turn": 1000 * cpu / turns,
        f"turns_per_s_on_{CORES}_cores": CORES * turns / cpu,
        "loop_lag_ms": {
            "p50": 1000 * lags[len(lags) // 2],
            "p99": 1000 * lags[int(len(lags) * 0.99)],
            "max": 1000 * lags[-1],
        },
    }


async def _lag(lags: list[float]) -> None:
    """Return the delay of the event loop."""
    loop = asyncio.get_running_loop()
    while True:
        due = loop.time() + 0.01
        await asyncio.sleep(0.01)
        lags.append(max(0.0, loop.time() - due))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__.split("\n", 1)[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("model", type=Path)
    parser.add_argument("--steps", type=int, default=5, help="batches, the first one not counted")
    parser.add_argument("--groups", type=int, default=8)
    parser.add_argument("--group-size", type=int, default=8)
    parser.add_argument("--turns", type=int, default=8, help="of an episode")
    parser.add_argument("--said", type=int, default=1000, help="tokens that are sampled a turn")
    parser.add_argument("--heard", type=int, default=1000, help="tokens that are observed a turn")
    parser.add_argument("--staleness", type=int, default=0)
    parser.add_argument("--trajectories", default="all", help="tracking.trajectories")
    parser.add_argument("--port", type=int, default=18931)
    parser.add_argument("--output", "-o", type=Path)
    options = parser.parse_args()
    if options.steps < 2:
        parser.error("the first step is not counted: there must be two at least")
    return options


if __name__ == "__main__":
    sys.exit(runs.ended(main))
