"""A crowd's yardstick is measured as the crowd is."""

from dataclasses import replace

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from service_cli.bench.context import Bench, Sizes
from service_cli.bench.crowds import code_crowd
from service_cli.bench.load import Target
from tests.harness.http_server import serving


async def answer(request: Request) -> JSONResponse:
    return JSONResponse({"task_ids": ["a"], "instance_id": "i"})


async def test_calls_of_many_connections_are_compared_with_an_echo_over_as_many() -> None:
    echoed: set[int] = set()

    async def echo(request: Request) -> JSONResponse:
        assert request.client is not None
        echoed.add(request.client.port)
        return JSONResponse({})

    routes = [
        Route("/echo", echo, methods=["POST"]),
        Route("/v1/{operation}", answer, methods=["POST"]),
    ]
    sizes = replace(Sizes.quick(), in_flight=4, concurrent=8, code_instances=6)
    with serving(Starlette(routes=routes)) as url:
        target = Target.of(url)
        figures = await code_crowd(Bench(target, target, sizes, "process", lambda _: None))
    assert figures["instances"] == 6
    assert len(echoed) == 4
