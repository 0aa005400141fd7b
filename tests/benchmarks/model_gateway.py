"""Measure the model gateway: the cost of a call, calls a second, and what splice and render record.

    python -m tests.benchmarks.model_gateway --model var/models/SmolLM2-135M-Instruct
    python -m tests.benchmarks.model_gateway --conversation

Agents in one process talk to the stand-alone gateway in another, over HTTP. The model is a stub that answers
at once, in the gateway's process or behind vLLM's token route in a third. The time of a call is divided into
that of the engine, that of the tokenizer (render, splice, parse) and the rest, which the gateway adds. A bare
aiohttp server that is sent the same bodies, and answers with about as much, is the yardstick of HTTP itself.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import statistics
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from itertools import cycle, pairwise
from pathlib import Path
from typing import Any

import aiohttp

from service_cli.bench.machine import describe_machine
from tests.benchmarks.gateway_agents import DIALECTS, Agent
from tests.benchmarks.gateway_conversation import conversation
from tests.harness.tiny_chat import tiny_folder

PARTS = ("in_process", "http", "throughput", "many_sessions")
PROMPTS = ("splice", "render")
IN_FLIGHT = (1, 32, 256)
_START_S = 180.0
_ANSWER_BYTES = 900
"""Of a typical answer in the chat dialect."""


def main() -> int:
    """Measure what was chosen."""
    options = _options()
    began = time.monotonic()
    if options.conversation:
        figures: dict[str, Any] = {"conversation": conversation(options.model)}
    else:
        figures = asyncio.run(_measured(options))
    document = {"benchmark": "model_gateway", "machine": describe_machine(), "model": options.model.name}
    text = json.dumps(_rounded({**document, **figures, "took_s": time.monotonic() - began}), indent=2) + "\n"
    sys.stdout.write(text)
    if options.output is not None:
        options.output.write_text(text, encoding="utf-8")
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--model", type=Path, help="folder of tokenizer and template; a tiny one if missing")
    parser.add_argument("--turns", type=int, default=12, help="calls of a conversation")
    parser.add_argument("--rounds", type=int, default=5, help="conversations of each latency")
    parser.add_argument("--seconds", type=float, default=8.0, help="of each throughput")
    parser.add_argument("--sessions", type=int, default=1000, help="open at once")
    parser.add_argument("--only", choices=PARTS, action="append", help="all parts if missing; repeatable")
    parser.add_argument("--conversation", action="store_true", help="record one by splice and by render")
    parser.add_argument("--output", "-o", type=Path, help="write the JSON to this file, too")
    options = parser.parse_args()
    options.model = options.model or tiny_folder()
    options.only = options.only or list(PARTS)
    return options


async def _measured(options: argparse.Namespace) -> dict[str, Any]:
    sizes = {name: getattr(options, name) for name in ("turns", "rounds", "seconds", "sessions")}
    return {"sizes": sizes} | {part: await _PARTS[part](options) for part in options.only}


async def _in_process(options: argparse.Namespace) -> dict[str, Any]:
    return {each: await _latency(options, each, "in_process") for each in PROMPTS}


async def _over_stub(options: argparse.Namespace) -> dict[str, Any]:
    with _process("stub", options.model) as (url, _):
        return {each: await _latency(options, each, url) for each in PROMPTS}


async def _latency(options: argparse.Namespace, prompts: str, engine: str) -> dict[str, Any]:
    """One call at a time, in each dialect."""
    calls: dict[str, list[float]] = {}
    floors: dict[str, list[float]] = {}
    with _process("gateway", options.model, prompts, engine, 0.0) as (url, ended), _bare() as bare:
        async with _http() as http:
            for dialect in DIALECTS:
                agents = [await _agent(http, url, dialect) for _ in range(options.rounds)]
                for agent in agents:
                    for _ in range(options.turns):
                        await agent.call()
                calls[dialect] = [second for agent in agents for second in agent.seconds]
                floors[dialect] = await bare_seconds(http, bare, agents)
    figures = ended()
    _tell(f"latency, {prompts}, {engine.partition(':')[0]}")
    each = options.rounds * options.turns
    totals = figures["tokenizing_total_s"]
    tokenizing = [after - before for before, after in pairwise(totals)]
    return {
        dialect: _divided(
            calls[dialect],
            figures["engine_s"][index * each : (index + 1) * each],
            tokenizing[index * each : (index + 1) * each],
        )
        | {"bare_http": _milliseconds(floors[dialect])}
        for index, dialect in enumerate(DIALECTS)
    }


def _divided(calls: Sequence[float], engine: Sequence[float], tokenizing: Sequence[float]) -> dict[str, Any]:
    """The parts of calls. A call's first tokenizing is counted for the call before."""
    added = [call - spent for call, spent in zip(calls, engine, strict=True)]
    rest = [each - spent for each, spent in zip(added, tokenizing, strict=True)]
    return {
        "call": _milliseconds(calls),
        "engine": _milliseconds(engine),
        "tokenizing": _milliseconds(tokenizing),
        "added": _milliseconds(added),
        "added_beyond_tokenizing": _milliseconds(rest),
    }


async def _throughputs(options: argparse.Namespace) -> dict[str, Any]:
    return {each: await _throughput(options, each) for each in PROMPTS}


async def _throughput(options: argparse.Namespace, prompts: str) -> dict[str, Any]:
    """Calls a second with so many agents in the chat dialect, each with sessions of its own."""
    found: dict[str, Any] = {}
    with _process("gateway", options.model, prompts, "in_process", 0.0) as (url, ended), _bare() as bare:
        async with _http() as http:
            bodies = await _conversation(http, url, options.turns)
            for in_flight in IN_FLIGHT:
                until = time.monotonic() + options.seconds
                began = time.monotonic()
                agents = await asyncio.gather(
                    *(_busy(http, url, until, options.turns) for _ in range(in_flight))
                )
                took = time.monotonic() - began
                seconds = [second for each in agents for second in each]
                rate = await _bare_rate(http, bare, bodies, in_flight, options.seconds / 2)
                found[f"at_{in_flight}"] = {
                    "calls_per_s": len(seconds) / took,
                    "call": _milliseconds(seconds),
                    "bare_http_calls_per_s": rate,
                }
                _tell(f"throughput, {prompts}, {in_flight} in flight: {len(seconds) / took:.0f} calls/s")
    figures = ended()
    return {**found, "gateway_cpu_ms_per_call": 1000 * figures["cpu_s"] / len(figures["engine_s"])}


async def _conversation(http: aiohttp.ClientSession, url: str, turns: int) -> Sequence[bytes]:
    """The bodies of a conversation; all in one dialect are the same, since the model's answers are."""
    agent = await _agent(http, url, "chat")
    for _ in range(turns):
        await agent.call()
    await _delete(http, url, agent)
    return agent.sent


async def _busy(http: aiohttp.ClientSession, url: str, until: float, turns: int) -> list[float]:
    seconds: list[float] = []
    while time.monotonic() < until:
        agent = await _agent(http, url, "chat")
        while len(agent.seconds) < turns and time.monotonic() < until:
            await agent.call()
        seconds += agent.seconds
        await _delete(http, url, agent)
    return seconds


async def _many_sessions(options: argparse.Namespace, turns: int = 3, wait_s: float = 1.0) -> dict[str, Any]:
    """All sessions ask at the same time, and their engine takes a second."""
    with _process("gateway", options.model, "splice", "in_process", wait_s) as (url, ended):
        async with _http() as http:
            began = time.monotonic()
            agents = [await _agent(http, url, "chat") for _ in range(options.sessions)]
            opened = time.monotonic()
            for _ in range(turns):
                await asyncio.gather(*(agent.call() for agent in agents))
            called = time.monotonic()
            recordings = [await _delete(http, url, agent) for agent in agents]
            deleted = time.monotonic()
    figures = ended()
    answered = sum(each["answered_calls"] for each in recordings)
    _tell(f"{options.sessions} sessions: {answered} calls in {called - opened:.1f} s")
    return {
        "engine_wait_s": wait_s,
        "opened_per_s": options.sessions / (opened - began),
        "answered_calls": answered,
        "calls_per_s": answered / (called - opened),
        "added": _milliseconds([second - wait_s for agent in agents for second in agent.seconds]),
        "deleted_per_s": options.sessions / (deleted - called),
        "share_spliced": sum(each["spliced_calls"] for each in recordings) / (answered - len(recordings)),
        "sequences_per_session": sum(len(each["sequences"]) for each in recordings) / len(recordings),
        "gateway_peak_rss_mb": figures["peak_rss_mb"],
    }


async def _agent(http: aiohttp.ClientSession, url: str, dialect: str) -> Agent:
    async with http.post(f"{url}/sessions", json={}, headers=_ADMIN) as answer:
        answer.raise_for_status()
        session = await answer.json()
    return Agent(http, url, session["api_key"], session["id"], dialect)


async def _delete(http: aiohttp.ClientSession, url: str, agent: Agent) -> dict[str, Any]:
    async with http.delete(f"{url}/sessions/{agent.session}", headers=_ADMIN) as answer:
        answer.raise_for_status()
        return dict(await answer.json())


_PARTS = {
    "in_process": _in_process,
    "http": _over_stub,
    "throughput": _throughputs,
    "many_sessions": _many_sessions,
}
_ADMIN = {"Authorization": "Bearer admin"}


async def bare_seconds(http: aiohttp.ClientSession, url: str, agents: Sequence[Agent]) -> list[float]:
    """The seconds of each of the agents' calls when a bare server answers it."""
    return [await _bare_call(http, url, body) for agent in agents for body in agent.sent]


async def _bare_call(http: aiohttp.ClientSession, url: str, body: bytes) -> float:
    began = time.perf_counter()
    async with http.post(f"{url}/v1/chat/completions", data=body) as answer:
        await answer.read()
    return time.perf_counter() - began


async def _bare_rate(
    http: aiohttp.ClientSession, url: str, bodies: Sequence[bytes], in_flight: int, seconds: float
) -> float:
    until = time.monotonic() + seconds

    async def busy() -> int:
        calls, again = 0, cycle(bodies)
        while time.monotonic() < until:
            await _bare_call(http, url, next(again))
            calls += 1
        return calls

    began = time.monotonic()
    return sum(await asyncio.gather(*(busy() for _ in range(in_flight)))) / (time.monotonic() - began)


@contextlib.asynccontextmanager
async def _http() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0), timeout=aiohttp.ClientTimeout(total=300)
    ) as session:
        yield session


@contextlib.contextmanager
def _bare() -> Iterator[str]:
    with _process("bare", _ANSWER_BYTES) as (url, _):
        yield url


@contextlib.contextmanager
def _process(role: str, *words: object) -> Iterator[tuple[str, Any]]:
    """Run one of the servers; its URL, and what it says when it has ended."""
    command = [sys.executable, "-m", "tests.benchmarks.gateway_server", role, *map(str, words)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None
    assert process.stdout is not None
    said: list[str] = []
    try:
        url = json.loads(process.stdout.readline())["url"]
        yield url, lambda: json.loads(said[0])
        process.stdin.close()
        said.append(process.stdout.read() or "{}")
        process.wait(_START_S)
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        process.stdout.close()


def _milliseconds(seconds: Sequence[float]) -> dict[str, float]:
    ordered = sorted(1000 * second for second in seconds)
    return {"p50_ms": statistics.median(ordered), "p95_ms": ordered[int(0.95 * (len(ordered) - 1))]}


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.4g}")
    if isinstance(value, dict):
        return {key: _rounded(each) for key, each in value.items()}
    return value


def _tell(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
