from __future__ import annotations

import asyncio
import socket
import ssl
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandbox_service.errors import ServiceError
from sandbox_service.stream.address import TcpAddress
from sandbox_service.stream.connection import MultiplexedClient, StreamOptions
from sandbox_service.stream.options import ServerOptions
from sandbox_service.stream.server import StreamServer
from sandbox_service.supervisor.options import SupervisorAddress, SupervisorOptions, TlsFiles, private_dir
from sandbox_service.wire.frames import Frame, Op
from tests.harness.certificates import certificates_in

QUICK = StreamOptions(connect_timeout_s=0.5, back_off_max_s=0.05)
STEP = Frame(Op.STEP, 0, "s.1", {}, b"x")


@pytest.fixture
def temporary(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A temporary folder of this process whose path is short."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        monkeypatch.setattr("tempfile.tempdir", folder)
        yield Path(folder)


def test_the_folder_of_sockets_is_private(temporary: Path):
    assert private_dir("s1.sock").parent == temporary
    assert private_dir("s1.sock").stat().st_mode & 0o077 == 0
    assert private_dir("s1.sock") == private_dir("s1.sock")


@pytest.mark.parametrize(("size", "fits"), [(107, True), (108, False), (200, False)])
def test_a_socket_is_in_the_temporary_folder_if_its_path_can_be_bound_there(
    temporary: Path, monkeypatch: pytest.MonkeyPatch, size: int, fits: bool
):
    options = SupervisorOptions(name="s1", fleet="team-a")
    deep = temporary / ("x" * (size - len(str(options.socket_path())) - 1))
    deep.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(deep))
    path = options.socket_path()
    assert (deep in path.parents) == fits
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        path.unlink()


def test_a_folder_that_others_may_enter_is_refused(temporary: Path):
    private_dir("s1.sock").chmod(0o755)
    with pytest.raises(PermissionError):
        private_dir("s1.sock")


def test_fleets_on_one_machine_have_sockets_of_their_own():
    paths = {SupervisorOptions(name="s1", fleet=fleet).socket_path() for fleet in ("a", "b")}
    assert len(paths) == 2


def test_the_secret_is_not_shown():
    assert "hush" not in repr(SupervisorAddress("s", "n", "/s", "h", None, "hush"))


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> tuple[TlsFiles, TlsFiles]:
    """Files of a fleet, and files that another authority signed."""
    folders = [tmp_path_factory.mktemp(name) for name in ("ours", "theirs")]
    return certificates_in(folders[0]), certificates_in(folders[1])


async def echo(frame: Frame) -> Frame:
    return frame.reply(frame.body)


async def test_two_ends_with_the_fleets_certificates_talk(certificates):
    ours, _ = certificates
    server = StreamServer(echo)
    port = await server.listen_tcp("127.0.0.1", 0, ours.context(server=True))
    client = MultiplexedClient(TcpAddress("127.0.0.1", port, ours.context(server=False)))
    body = bytes(2_000_000)
    assert (await client.request(Frame(Op.STEP, 0, "s.1", {}, body), 5)).body == body
    await client.close()
    await server.close()


@pytest.mark.parametrize("asker", ["another authority's", "none", "no tls"])
async def test_an_asker_without_the_fleets_certificate_gets_no_answer(certificates, asker: str):
    ours, theirs = certificates
    contexts: dict[str, ssl.SSLContext | None] = {
        "no tls": None,
        "another authority's": theirs.context(server=False),
    }
    bare = contexts["none"] = ssl.create_default_context(cafile=ours.authority)
    bare.check_hostname = False
    handled = []

    async def note(frame: Frame) -> Frame:
        handled.append(frame)
        return frame.reply()

    server = StreamServer(note)
    port = await server.listen_tcp("127.0.0.1", 0, ours.context(server=True))
    client = MultiplexedClient(TcpAddress("127.0.0.1", port, contexts[asker]), options=QUICK)
    with pytest.raises(ServiceError):
        await client.request(STEP, 5)
    assert handled == []
    await client.close()
    await server.close()


async def test_a_caller_that_never_begins_the_tls_handshake_is_cut(certificates):
    ours, _ = certificates
    server = StreamServer(echo, options=ServerOptions(hello_timeout_s=0.1))
    port = await server.listen_tcp("127.0.0.1", 0, ours.context(server=True))
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    # asyncio's own limit is a minute.
    async with asyncio.timeout(30):
        assert await reader.read() == b""
    writer.close()
    await server.close()
