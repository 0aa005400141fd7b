"""Checks of benchmarks that have to fail where something is wrong."""

import asyncio

import pytest

pytest.importorskip("ray", reason="Ray is not installed")

from tests.benchmarks.console_polling import visiting
from tests.harness.fleet_load import seconds_until_next


async def test_a_visit_that_fails_fails_the_measurement_beside_it() -> None:
    async def refused() -> None:
        raise ConnectionRefusedError("nothing listens")

    with pytest.raises(ConnectionRefusedError):
        async with visiting(refused()):
            await asyncio.sleep(0)


async def test_visits_end_with_the_measurement() -> None:
    visits: list[int] = []

    async def visit() -> None:
        while True:
            visits.append(1)
            await asyncio.sleep(0)

    async with visiting(visit()):
        await asyncio.sleep(0)
    seen = len(visits)
    await asyncio.sleep(0)
    assert seen == len(visits) > 0


def test_an_instance_that_never_went_on_has_no_wait() -> None:
    answers = {"went on": [1.0, 10.01, 12.5], "stopped": [1.0, 10.01], "silent": []}
    assert seconds_until_next(answers, 10.0) == {"went on": 2.5, "stopped": None, "silent": None}
