"""Both clients against the real gateway over a fleet in memory: one side understands the other."""

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator

import httpx
import pytest

from sandbox_client import (
    AsyncSandboxClient,
    AuthenticationError,
    CapacityError,
    ClientLimits,
    ConflictError,
    GoneError,
    NotFoundError,
    RequestError,
    RetryPolicy,
    SandboxClient,
    StepBatcher,
    TransportError,
)
from sandbox_contract.problems import ErrorCode
from sandbox_service.config import ServerConfig
from sandbox_service.errors import OverCapacityError
from sandbox_service.gateway.app import build_app
from sandbox_service.wire.frames import Op
from tests.fakes.backend import EchoBackend
from tests.harness.gateway import digest, make_registry
from tests.harness.http_server import serving

QUICK = RetryPolicy(base_s=0.0, attempts=2)


@pytest.fixture
def backend() -> EchoBackend:
    return EchoBackend()


@pytest.fixture
async def client(backend: EchoBackend) -> AsyncIterator[AsyncSandboxClient]:
    transport = httpx.ASGITransport(build_app(ServerConfig(), make_registry(), backend))
    async with AsyncSandboxClient("http://localhost", transport=transport, retry=QUICK) as made:
        yield made


@pytest.fixture
def address(backend: EchoBackend) -> Iterator[str]:
    keys = {digest("secret"): "team"}
    with serving(build_app(ServerConfig(api_keys=keys), make_registry(), backend)) as url:
        yield url


async def test_an_episode_goes_through(client: AsyncSandboxClient) -> None:
    async with client.episode("echo", "echo-10", seed=7) as episode:
        for index in range(10):
            result = await episode.step(f"say {index}")
            assert result.observation.messages[0].content == f"say {index}"
        assert episode.finished
        assert (await episode.evaluate()).success
        instance_id = episode.instance_id
    with pytest.raises(GoneError):
        await client.step(instance_id, "late")


async def test_the_same_key_gives_the_same_answer(client: AsyncSandboxClient) -> None:
    created = await client.create_instance("echo", "echo-10", idempotency_key="k1")
    assert (await client.create_instance("echo", "echo-10", idempotency_key="k1")) == created
    with pytest.raises(ConflictError, match=ErrorCode.IDEMPOTENCY_CONFLICT):
        await client.create_instance("echo", "echo-1", idempotency_key="k1")


async def test_copies_step_on_their_own(client: AsyncSandboxClient) -> None:
    async with client.episode("echo", "echo-10") as episode:
        await episode.step("a")
        first, second = await episode.fork(2)
        async with first, second:
            assert (await first.step("b")).step_index == 1
            assert second.step_index == 1


async def test_batched_steps_come_back_to_their_callers(client: AsyncSandboxClient) -> None:
    batcher = StepBatcher(client, max_size=8)

    async def play(name: int) -> list[str | None]:
        async with batcher.episode("echo", "echo-10") as episode:
            results = [await episode.step(f"{name}-{index}") for index in range(10)]
            return [result.observation.messages[0].content for result in results]

    heard = await asyncio.gather(*(play(name) for name in range(20)))
    assert heard == [[f"{name}-{index}" for index in range(10)] for name in range(20)]


@pytest.mark.parametrize(
    ("environment", "task", "code"),
    [("nowhere", "echo-1", ErrorCode.UNKNOWN_ENVIRONMENT), ("echo", "nothing", ErrorCode.UNKNOWN_TASK)],
)
async def test_refusals_are_typed(
    client: AsyncSandboxClient, environment: str, task: str, code: ErrorCode
) -> None:
    with pytest.raises(NotFoundError) as caught:
        await client.create_instance(environment, task)
    assert caught.value.code == code
    assert caught.value.request_id


async def test_a_wrong_role_is_refused(client: AsyncSandboxClient) -> None:
    created = await client.create_instance("echo", "echo-1")
    with pytest.raises(RequestError):
        await client.step(created.instance_id, {"role": "user", "content": "x"})


async def test_a_full_fleet_is_asked_again_until_the_deadline(backend: EchoBackend) -> None:
    backend.failures[Op.CREATE] = OverCapacityError("full", retry_after_s=0.01)
    transport = httpx.ASGITransport(build_app(ServerConfig(), make_registry(), backend))
    policy = RetryPolicy(base_s=0.0, total_s=0.1)
    async with AsyncSandboxClient("http://localhost", transport=transport, retry=policy) as client:
        with pytest.raises(CapacityError):
            await client.create_instance("echo", "echo-1")
    assert len(backend.calls) > 2


async def test_what_the_service_tells_about_itself_is_read(client: AsyncSandboxClient) -> None:
    assert await client.healthy()
    assert await client.ready()
    assert {item.name for item in (await client.environments()).environments} == {"echo", "tools"}
    assert (await client.get_env_profile("echo")).task_ids == ("echo-1", "echo-10")
    assert (await client.stats()).supervisors
    created = await client.create_instance("echo", "echo-1")
    assert created.instance_id in {item.instance_id for item in (await client.instances()).instances}
    assert (await client.trajectory(created.instance_id)).task_id == "echo-1"


async def test_files_go_both_ways(client: AsyncSandboxClient) -> None:
    created = await client.create_instance("echo", "echo-1")
    written = await client.write_file(created.instance_id, "data/ä b.bin", b"\x00\xff")
    assert (written.path, written.size) == ("data/ä b.bin", 2)
    assert await client.read_file(created.instance_id, "data/ä b.bin") == b"\x00\xff"
    assert [entry.path for entry in (await client.list_files(created.instance_id)).files] == ["data/ä b.bin"]


def test_the_synchronous_client_works_over_a_socket(address: str) -> None:
    with SandboxClient(address, "secret", retry=QUICK) as client, client.episode("echo", "echo-1") as episode:
        assert episode.step("hello").terminated
        assert episode.evaluate().success


async def test_the_asynchronous_client_works_over_a_socket(address: str) -> None:
    client = AsyncSandboxClient(address, "secret", retry=QUICK)
    async with client, client.episode("echo", "echo-1") as episode:
        assert (await episode.step("hello")).terminated


@pytest.mark.filterwarnings("ignore:Sending a large body:ResourceWarning")
async def test_a_body_that_nobody_takes_is_given_up() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        host, port = listener.getsockname()
        limits = ClientLimits(attempt_s=0.2, connect_s=0.2)
        async with AsyncSandboxClient(
            f"http://{host}:{port}", limits=limits, retry=RetryPolicy(attempts=1)
        ) as client:
            with pytest.raises(TransportError, match="write_file had no answer"):
                await client.write_file("i", "a.bin", bytes(16 * 2**20))


def test_a_wrong_key_is_refused(address: str) -> None:
    for key in (None, "guess"):
        with SandboxClient(address, key, retry=QUICK) as client, pytest.raises(AuthenticationError):
            client.stats()
