"""The host's end of the connection: each job that is ordered ends in a report."""

import asyncio
import contextlib
import socket

import pytest

from tests.fakes.wordless_error import WordlessError
from tests.harness.agent_jobs import JOB
from trainer.agents.host import AgentHost
from trainer.agents.host_messages import HostOrder, HostReport

ORDER = HostOrder.run(7, JOB)
CANCEL = HostOrder(kind="cancel", number=7)


class Agents:
    """Runs a job in one way."""

    def __init__(self, error=None):
        self._error = error

    async def run(self, job):
        if self._error is not None:
            raise self._error
        await asyncio.Event().wait()


@contextlib.contextmanager
def host_of(agents):
    """A host, and a function that returns its next report."""
    ours, theirs = socket.socketpair()
    ours.settimeout(60)
    with ours, theirs, ours.makefile("rb") as lines:
        host = AgentHost(agents, theirs)
        yield host, lambda: HostReport.model_validate_json(lines.readline())


@pytest.mark.parametrize("turns", [0, 3], ids=["before-its-first-step", "while-it-runs"])
async def test_a_job_that_is_cancelled_ends(turns) -> None:
    with host_of(Agents()) as (host, next_report):
        host.obey(ORDER)
        for _ in range(turns):
            await asyncio.sleep(0)
        host.obey(CANCEL)
        report = await asyncio.to_thread(next_report)
        assert (report.kind, report.number, report.error) == ("ended", 7, "it was cancelled")


async def test_a_job_that_fails_without_words_has_failed() -> None:
    with host_of(Agents(WordlessError())) as (host, next_report):
        host.obey(ORDER)
        report = await asyncio.to_thread(next_report)
        assert (report.kind, report.number) == ("ended", 7)
        assert report.error == "WordlessError (its message is unavailable: str() raised ValueError)"


async def test_a_cancellation_of_a_job_that_has_ended_does_nothing() -> None:
    with host_of(Agents(ValueError("no"))) as (host, next_report):
        host.obey(ORDER)
        assert (await asyncio.to_thread(next_report)).error == "ValueError: no"
        host.obey(CANCEL)
        host.obey(HostOrder(kind="ping", number=8))
        assert (await asyncio.to_thread(next_report)).kind == "pong"
