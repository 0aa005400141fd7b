import asyncio
from collections.abc import Callable

import httpx
import pytest

from sandbox_client import (
    AsyncSandboxClient,
    AuthenticationError,
    ConflictError,
    InvalidResponse,
    NotFoundError,
    RequestError,
    RetryPolicy,
    StepBatcher,
)
from sandbox_contract.problems import ErrorCode, Problem
from tests.fakes.echo_service import EchoService
from tests.fakes.scripted_transport import ScriptedTransport, problem

Script = Callable[[httpx.Request], httpx.Response]


def client_of(script: Script) -> AsyncSandboxClient:
    retry = RetryPolicy(base_s=0.0, attempts=2)
    return AsyncSandboxClient("http://service", transport=ScriptedTransport(script), retry=retry)


async def test_concurrent_steps_travel_together_and_everyone_gets_their_own() -> None:
    service = EchoService()
    service.live = {f"i{index}": 0 for index in range(100)}
    async with client_of(service) as client:
        batcher = StepBatcher(client, max_size=64)
        results = await asyncio.gather(*(batcher.step(f"i{index}", f"say {index}") for index in range(100)))
    assert service.calls == ["batch", "batch"]
    assert [result.observation.messages[0].content for result in results] == [
        f"say {index}" for index in range(100)
    ]


async def test_one_failed_step_fails_nobody_else() -> None:
    service = EchoService()
    service.live = {"i0": 0, "i2": 9}
    async with client_of(service) as client:
        batcher = StepBatcher(client)
        steps = (batcher.step(f"i{index}", "x") for index in range(3))
        first, second, third = await asyncio.gather(*steps, return_exceptions=True)
    assert not isinstance(first, BaseException)
    assert isinstance(second, NotFoundError)
    assert isinstance(third, ConflictError)


async def test_a_step_that_cannot_be_sent_fails_its_own_caller_alone() -> None:
    service = EchoService()
    service.live = {"i0": 0, "i1": 0, "i2": 0}
    async with client_of(service) as client:
        batcher = StepBatcher(client)
        steps = (batcher.step(f"i{index}", text) for index, text in enumerate(("x", "\ud83d", "x")))
        first, second, third = await asyncio.gather(*steps, return_exceptions=True)
    assert isinstance(second, RequestError)
    assert not isinstance(first, BaseException)
    assert not isinstance(third, BaseException)


async def test_a_step_with_a_timeout_of_its_own_waits_for_no_other() -> None:
    service = EchoService()
    service.live = {"i0": 0, "i1": 0}
    async with client_of(service) as client:
        batcher = StepBatcher(client, window_s=3600.0, max_size=2)
        waiting = asyncio.create_task(batcher.step("i0", "a"))
        await asyncio.sleep(0)
        assert (await batcher.step("i1", "b", timeout_s=5.0)).step_index == 0
        assert not waiting.done()
        assert (await batcher.step("i1", "c")).step_index == 1
        assert (await waiting).step_index == 0
    assert service.calls == ["step", "batch"]


async def test_steps_on_one_instance_never_share_a_batch() -> None:
    service = EchoService()
    service.live = {"i0": 0}
    async with client_of(service) as client:
        batcher = StepBatcher(client)
        first, second = await asyncio.gather(batcher.step("i0", "a"), batcher.step("i0", "b"))
    assert (first.step_index, second.step_index) == (0, 1)
    assert service.calls == ["batch", "batch"]


async def test_a_step_with_a_timeout_of_its_own_comes_after_the_earlier_one_of_its_instance() -> None:
    service = EchoService()
    service.live = {"i0": 0}
    async with client_of(service) as client:
        batcher = StepBatcher(client)
        steps = batcher.step("i0", "a"), batcher.step("i0", "b", timeout_s=5.0)
        first, second = await asyncio.gather(*steps)
    assert (first.step_index, second.step_index) == (0, 1)
    assert service.calls == ["batch", "step"]


async def test_a_retryable_failure_is_sent_again_alone_under_its_key() -> None:
    service = EchoService()
    service.live = {"i0": 0, "i1": 0}
    broken = Problem.of(ErrorCode.OUTCOME_UNKNOWN).model_dump(mode="json")

    def script(request: httpx.Request) -> httpx.Response:
        answer = service(request)
        if not request.url.path.endswith("batch"):
            return answer
        results = answer.json()["results"]
        return httpx.Response(200, json={"results": [{"status": 503, "body": broken}, *results[1:]]})

    async with client_of(script) as client:
        batcher = StepBatcher(client)
        first, _ = await asyncio.gather(batcher.step("i0", "a"), batcher.step("i1", "b"))
    assert first.step_index == 0
    assert service.calls == ["batch", "step"]
    assert service.live["i0"] == 1
    assert set(service.executions.values()) == {1}


async def test_a_batch_that_fails_as_a_whole_fails_each_of_its_steps() -> None:
    paths: list[str] = []

    def script(request: httpx.Request) -> httpx.Response:
        paths.append(request.url.path)
        return problem(ErrorCode.UNAUTHENTICATED, request_id="r1")

    async with client_of(script) as client:
        batcher = StepBatcher(client)
        outcomes = await asyncio.gather(
            *(batcher.step(f"i{i}", "x") for i in range(3)), return_exceptions=True
        )
    assert [type(outcome) for outcome in outcomes] == [AuthenticationError] * 3
    assert len({id(outcome) for outcome in outcomes}) == 3
    assert paths == ["/v1/batch"]


OF_A_PROXY = httpx.Response(413, html="<html>413 Request Entity Too Large</html>")


@pytest.mark.parametrize(
    ("code", "refusal"),
    [
        *((code, problem(code)) for code in (ErrorCode.JSON_TOO_DEEP, ErrorCode.INVALID_REQUEST)),
        (ErrorCode.BODY_TOO_LARGE, problem(ErrorCode.BODY_TOO_LARGE)),
        (ErrorCode.BODY_TOO_LARGE, OF_A_PROXY),
    ],
    ids=["too deep", "invalid", "too large", "too large for a proxy"],
)
async def test_the_steps_of_a_batch_that_is_refused_are_sent_alone(
    code: ErrorCode, refusal: httpx.Response
) -> None:
    service = EchoService()
    service.live = {"i0": 0, "i1": 0}

    def script(request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith("batch") or b"too much" in request.content:
            return refusal
        return service(request)

    async with client_of(script) as client:
        batcher = StepBatcher(client)
        actions = ("a", "b", "too much")
        steps = (batcher.step(f"i{index}", action) for index, action in enumerate(actions))
        first, second, third = await asyncio.gather(*steps, return_exceptions=True)
    assert not isinstance(first, BaseException)
    assert not isinstance(second, BaseException)
    assert isinstance(third, RequestError)
    assert third.code == code
    assert service.calls == ["step", "step"]


async def test_a_single_step_that_is_refused_is_not_sent_again() -> None:
    paths: list[str] = []

    def script(request: httpx.Request) -> httpx.Response:
        paths.append(request.url.path)
        return problem(ErrorCode.BODY_TOO_LARGE)

    async with client_of(script) as client:
        with pytest.raises(RequestError):
            await StepBatcher(client).step("i0", "x")
    assert paths == ["/v1/batch"]


async def test_results_that_are_missing_or_wrong_are_typed_errors() -> None:
    async with client_of(
        lambda _: httpx.Response(200, json={"results": [{"status": 200, "body": {}}]})
    ) as client:
        batcher = StepBatcher(client)
        outcomes = await asyncio.gather(
            *(batcher.step(f"i{i}", "x") for i in range(2)), return_exceptions=True
        )
    assert [type(outcome) for outcome in outcomes] == [InvalidResponse] * 2


async def test_a_caller_that_gives_up_while_waiting_does_not_act() -> None:
    service = EchoService()
    service.live = {"i0": 0, "i1": 0}
    async with client_of(service) as client:
        batcher = StepBatcher(client, window_s=0.01)
        first = asyncio.create_task(batcher.step("i0", "a"))
        second = asyncio.create_task(batcher.step("i1", "b"))
        await asyncio.sleep(0)
        first.cancel()
        await second
    assert service.live == {"i0": 0, "i1": 1}


async def test_an_unforeseen_exception_reaches_every_caller() -> None:
    def script(_: httpx.Request) -> httpx.Response:
        raise ZeroDivisionError

    async with client_of(script) as client:
        batcher = StepBatcher(client)
        outcomes = await asyncio.gather(
            *(batcher.step(f"i{i}", "x") for i in range(2)), return_exceptions=True
        )
    assert [type(outcome) for outcome in outcomes] == [ZeroDivisionError] * 2
    assert "waiting=0 sending=0" in repr(batcher)


async def test_episodes_of_a_batcher_step_in_batches() -> None:
    service = EchoService(steps=1)
    async with client_of(service) as client:
        batcher = StepBatcher(client)

        async def play() -> bool:
            async with batcher.episode("echo", "t") as episode:
                await episode.step("x")
                return episode.finished

        assert all(await asyncio.gather(*(play() for _ in range(20))))
    assert service.calls.count("batch") <= 3
    assert service.calls.count("step") == 0
    assert service.live == {}


@pytest.mark.parametrize("size", [0, 257])
async def test_a_size_that_no_batch_can_have_is_refused(size: int) -> None:
    async with client_of(EchoService()) as client:
        with pytest.raises(ValueError, match="max_size"):
            StepBatcher(client, max_size=size)
