"""Functions that look as if they ran, and have not; and those whose failure cannot be put in words."""

import asyncio
import contextlib
import functools
import io
from pathlib import Path

import pytest

from tests.fakes.wordless_error import WordlessError
from tests.harness.agent_jobs import JOB
from trainer.agents.function import FunctionAgents
from trainer.errors import AgentFailed

played = []


def traced(function):
    """A decorator as for functions that are not async."""

    @functools.wraps(function)
    def wrapper(*given):
        return function(*given)

    return wrapper


@traced
async def hidden(episode):
    played.append("hidden")


def generator(episode):
    played.append("generator")
    yield


async def async_generator(episode):
    played.append("async_generator")
    yield


@pytest.mark.parametrize(
    ("function", "kind"),
    [(hidden, "coroutine"), (generator, "generator"), (async_generator, "async_generator")],
)
async def test_an_agent_that_has_not_run_has_failed(function, kind) -> None:
    with pytest.raises(AgentFailed, match=f"the agent has not run: .* returned a {kind};"):
        await FunctionAgents(function).run(JOB)
    assert played == []


def fails(episode):
    raise WordlessError


async def fails_here(episode):
    raise WordlessError


@pytest.mark.parametrize("function", [fails, fails_here], ids=["in-a-thread", "async"])
async def test_an_agent_whose_error_has_no_words_has_failed(function) -> None:
    async with asyncio.timeout(60):
        with pytest.raises(AgentFailed, match=WordlessError.__name__):
            await FunctionAgents(function).run(JOB)


@pytest.mark.parametrize("function", [fails, fails_here], ids=["in-a-thread", "async"])
async def test_an_agent_that_fails_when_the_disk_of_its_log_is_full_has_failed(function) -> None:
    with Path("/dev/full").open("wb", buffering=0) as full:  # noqa: ASYNC230 - it never waits
        log = io.TextIOWrapper(full, write_through=True)
        with contextlib.redirect_stderr(log):
            async with asyncio.timeout(60):
                with pytest.raises(AgentFailed, match=WordlessError.__name__):
                    await FunctionAgents(function).run(JOB)
        log.detach()


async def test_an_async_agent_and_a_plain_one_run() -> None:
    async def here(episode):
        played.append("here")

    for function in (here, lambda _: played.append("in a thread")):
        await FunctionAgents(function).run(JOB)
    assert played == ["here", "in a thread"]
    played.clear()
