import json
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from service_cli.bench.episodes import play_many
from service_cli.bench.load import LoadError, Target
from service_cli.bench.scripts import Script, Scripts
from tests.fakes.echo_service import EchoService
from tests.harness.http_server import serving

MESSAGE = json.dumps({"role": "assistant", "content": "x"}).encode()


@contextmanager
def served(service: EchoService) -> Iterator[Target]:
    async def answer(request: Request) -> Response:
        given = httpx.Request("POST", str(request.url), content=await request.body())
        answered = service(given)
        return Response(answered.content, answered.status_code, media_type="application/json")

    with serving(Starlette(routes=[Route("/v1/{verb}", answer, methods=["POST"])])) as url:
        yield Target.of(url)


def scripts(*steps: int, environment: str = "echo") -> Scripts:
    each = (Script(f"task-{number}", (MESSAGE,) * count) for number, count in enumerate(steps))
    return Scripts(environment, "train", tuple(each))


async def test_whole_episodes_are_played_and_released() -> None:
    service = EchoService(steps=3)
    with served(service) as target:
        load, tally = await play_many(target, scripts(3), connections=2, most=5, most_s=60)
    assert (tally.episodes, tally.solved, tally.problem) == (5, 5, None)
    assert len(service.released) == 5
    assert not service.live
    assert len(load.latencies_ms["/v1/step"]) == 15


async def test_an_episode_that_is_over_takes_no_further_step() -> None:
    service = EchoService(steps=2)
    with served(service) as target:
        _, tally = await play_many(target, scripts(9), connections=1, most=1, most_s=60)
    assert tally.solved == 1
    assert service.calls.count("step") == 2


async def test_a_reference_that_does_not_solve_is_counted_and_named() -> None:
    with served(EchoService(steps=3)) as target:
        _, tally = await play_many(target, scripts(3, 1), connections=1, most=4, most_s=60)
    assert (tally.solved, tally.unsolved) == (2, ["task-1", "task-1"])
    assert tally.problem == "task-1 is not solved by its reference"


async def test_a_refused_episode_is_counted_with_its_reason() -> None:
    with served(EchoService()) as target:
        _, tally = await play_many(
            target, scripts(1, environment="nowhere"), connections=1, most=2, most_s=60
        )
    assert (tally.episodes, tally.solved) == (2, 0)
    assert tally.problem is not None
    assert "unknown_environment" in tally.problem


async def test_every_client_plays_one_episode_however_short_the_time() -> None:
    with served(EchoService(steps=1)) as target:
        _, tally = await play_many(target, scripts(1), connections=4, most=1, most_s=0)
    assert tally.solved == 4


async def test_nobody_at_the_address_ends_the_measurement() -> None:
    with served(EchoService()) as target:
        pass
    with pytest.raises((LoadError, OSError)):
        await play_many(target, scripts(1), connections=1, most=1, most_s=1)
