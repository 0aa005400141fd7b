import inspect
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from sandbox_client import (
    AsyncEpisode,
    AsyncSandboxClient,
    ClientLimits,
    Episode,
    RetryPolicy,
    SandboxClient,
    TransportError,
)
from sandbox_contract.problems import ErrorCode
from tests.fakes.echo_service import EchoService
from tests.fakes.scripted_transport import ScriptedTransport, in_turn, problem

QUICK = RetryPolicy(base_s=0.0, attempts=3)
RENAMED = {"aclose": "close"}
RETURNS = {
    "AsyncEpisode": "Episode",
    "AsyncIterator[InstanceTrajectory]": "Iterator[InstanceTrajectory]",
    "tuple[AsyncEpisode, ...]": "tuple[Episode, ...]",
}


def public(cls: type) -> dict[str, inspect.Signature]:
    methods = inspect.getmembers(cls, inspect.isfunction)
    return {
        RENAMED.get(name, name): inspect.signature(item) for name, item in methods if not name.startswith("_")
    }


def plain(signature: inspect.Signature) -> tuple[list[inspect.Parameter], str]:
    returned = str(signature.return_annotation)
    return list(signature.parameters.values()), RETURNS.get(returned, returned)


@pytest.mark.parametrize(("left", "right"), [(AsyncSandboxClient, SandboxClient), (AsyncEpisode, Episode)])
def test_both_sides_have_the_same_names_and_signatures(left: type, right: type) -> None:
    assert set(public(left)) == set(public(right))
    for name, signature in public(left).items():
        assert plain(signature) == plain(public(right)[name]), name


@pytest.mark.parametrize(("left", "right"), [(AsyncSandboxClient, SandboxClient), (AsyncEpisode, Episode)])
def test_both_sides_are_made_and_documented_alike(left: type, right: type) -> None:
    allowed = {"client", "transport", "stepper"}
    sides = [
        {name: p.default for name, p in inspect.signature(cls).parameters.items() if name not in allowed}
        for cls in (left, right)
    ]
    assert sides[0] == sides[1]
    for name in public(right):
        assert getattr(right, name).__doc__, name


def test_a_retry_sends_the_same_bytes() -> None:
    service = EchoService()
    script = in_turn(httpx.ConnectError("x"), problem(ErrorCode.OUTCOME_UNKNOWN))
    transport = ScriptedTransport(
        lambda request: script(request) if len(transport.requests) < 3 else service(request)
    )
    with SandboxClient("http://service", transport=transport, retry=QUICK) as client:
        assert client.create_instance("echo", "t").instance_id == "i0"
    assert len({request.content for request in transport.requests}) == 1
    assert transport.closed


def test_a_service_that_stays_away_is_a_transport_error() -> None:
    transport = ScriptedTransport(in_turn(httpx.ConnectError("refused")))
    with SandboxClient("http://service", transport=transport, retry=QUICK) as client:
        assert not client.healthy()
        with pytest.raises(TransportError, match="refused"):
            client.stats()
    assert len(transport.requests) == 1 + 3


def test_threads_share_a_client_and_its_bound() -> None:
    service, lock = EchoService(steps=10_000), threading.Lock()
    running, most = 0, 0

    def script(request: httpx.Request) -> httpx.Response:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        time.sleep(0.002)
        with lock:
            running -= 1
            return service(request)

    service.live = {"i0": 0}
    with (
        SandboxClient(
            "http://s", transport=ScriptedTransport(script), limits=ClientLimits(in_flight=3)
        ) as client,
        ThreadPoolExecutor(12) as pool,
    ):
        list(pool.map(lambda _: client.step("i0", "x"), range(60)))
    assert service.live == {"i0": 60}
    assert most <= 3
