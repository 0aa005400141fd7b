"""The kernel's refusals to a process that has confined itself."""

from __future__ import annotations

import asyncio
import errno
import os
import secrets
import socket
from typing import TYPE_CHECKING

import pytest

from sandbox_service.runner.kernel import privileges
from sandbox_service.runner.kernel.confinement import (
    confine,
    keep_abstract_sockets_apart,
    refuse_sockets,
    refuse_unix_sockets,
)
from sandbox_service.sandboxes.seccomp import filter_program

if TYPE_CHECKING:
    from collections.abc import Callable

AF_VSOCK = 40
CLONE_NEWUSER = 0x10000000


def outcome(action: Callable[[], object]) -> int:
    """Return the result of the action in a forked child: 0, or the number of the error."""
    pid = os.fork()
    if pid == 0:
        code = 255
        try:
            privileges.refuse_new_privileges()
            action()
            code = 0
        except OSError as error:
            code = error.errno or 254
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def confined(action: Callable[[], object]) -> Callable[[], None]:
    def run() -> None:
        confine(filter_program() or b"")
        action()

    return run


@pytest.fixture(autouse=True)
def _known_machine() -> None:
    if filter_program() is None:
        pytest.skip("no filter for this machine")


def test_a_confined_process_does_ordinary_work() -> None:
    def work() -> None:
        socket.socketpair()
        if os.waitpid(os.spawnv(os.P_NOWAIT, "/bin/true", ["true"]), 0)[1]:
            raise OSError(errno.ECHILD, "the child failed")

    assert outcome(confined(work)) == 0


@pytest.mark.parametrize(
    "deed",
    [
        lambda: socket.socket(AF_VSOCK, socket.SOCK_STREAM),
        lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW),
        lambda: privileges.check(privileges.libc().unshare(CLONE_NEWUSER)),
        lambda: privileges.check(privileges.libc().shmget(0, 4096, 0o600)),
        lambda: privileges.check(privileges.libc().mount(b"none", b"/tmp", b"tmpfs", 0, None)),
    ],
    ids=["vsock", "netlink", "user namespace", "System V shared memory", "mount"],
)
def test_a_confined_process_is_refused_what_the_list_does_not_name(deed: Callable[[], object]) -> None:
    assert outcome(confined(deed)) == errno.EPERM


def test_the_filter_passes_to_every_descendant() -> None:
    def deed() -> None:
        raise OSError(outcome(lambda: socket.socket(AF_VSOCK, socket.SOCK_STREAM)), "the child's error")

    assert outcome(confined(deed)) == errno.EPERM


def test_a_program_that_is_none_is_refused() -> None:
    assert outcome(lambda: confine(b"")) == errno.EINVAL


def test_abstract_sockets_of_others_are_out_of_reach_and_own_ones_are_not() -> None:
    name = f"\0confinement-{secrets.token_hex(8)}"
    if outcome(lambda: None if keep_abstract_sockets_apart() else _fail()) != 0:
        pytest.skip("the kernel does not scope abstract sockets")

    def reach(own: bool) -> None:
        keep_abstract_sockets_apart()
        target = name
        if own:
            target += "-own"
            listening = socket.socket(socket.AF_UNIX)
            listening.bind(target)
            listening.listen()
        socket.socket(socket.AF_UNIX).connect(target)

    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(name)
        listening.listen()
        assert outcome(lambda: socket.socket(socket.AF_UNIX).connect(name)) == 0
        assert outcome(lambda: reach(own=False)) == errno.EPERM
        assert outcome(lambda: reach(own=True)) == 0


def _fail() -> None:
    raise OSError(errno.EOPNOTSUPP, "not supported")


def without_unix_sockets(action: Callable[[], object]) -> Callable[[], None]:
    def run() -> None:
        refuse_unix_sockets()
        action()

    return run


@pytest.mark.parametrize("kind", [socket.SOCK_STREAM, socket.SOCK_DGRAM])
def test_where_unix_sockets_are_refused_none_can_be_opened(kind: socket.SocketKind) -> None:
    assert outcome(without_unix_sockets(lambda: socket.socket(socket.AF_UNIX, kind))) == errno.EACCES


def test_where_unix_sockets_are_refused_pairs_and_other_families_work() -> None:
    def work() -> None:
        here, there = socket.socketpair()
        here.send(b"x")
        there.recv(1)
        socket.socket(socket.AF_INET).close()

    assert outcome(without_unix_sockets(work)) == 0


def without_sockets(action: Callable[[], object]) -> Callable[[], None]:
    def run() -> None:
        refuse_sockets()
        action()

    return run


@pytest.mark.parametrize("family", [socket.AF_UNIX, socket.AF_INET, socket.AF_INET6])
@pytest.mark.parametrize("kind", [socket.SOCK_STREAM, socket.SOCK_DGRAM])
def test_where_sockets_are_refused_none_of_any_family_can_be_opened(
    family: socket.AddressFamily, kind: socket.SocketKind
) -> None:
    assert outcome(without_sockets(lambda: socket.socket(family, kind))) == errno.EACCES


@pytest.mark.parametrize(
    "deed",
    [
        lambda: socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM),
        # The kernel makes it a datagram socket.
        lambda: socket.socketpair(socket.AF_UNIX, socket.SOCK_RAW),
        lambda: socket.socketpair()[0].bind(f"\0confinement-{secrets.token_hex(8)}"),
        lambda: socket.socketpair()[0].connect("\0anywhere"),
    ],
    ids=["a datagram pair", "a raw pair", "a name", "another peer"],
)
def test_where_sockets_are_refused_a_pair_reaches_nobody_else(deed: Callable[[], object]) -> None:
    assert outcome(without_sockets(deed)) == errno.EACCES


@pytest.mark.parametrize("kind", [socket.SOCK_STREAM, socket.SOCK_SEQPACKET])
def test_where_sockets_are_refused_pairs_and_event_loops_work(kind: socket.SocketKind) -> None:
    async def answer() -> int:
        done = await asyncio.create_subprocess_exec("/bin/true")
        return await done.wait()

    def work() -> None:
        here, there = socket.socketpair(type=kind | socket.SOCK_NONBLOCK)
        here.send(b"x")
        there.recv(1)
        if asyncio.run(answer()):
            raise OSError(errno.ECHILD, "the child failed")

    assert outcome(without_sockets(work)) == 0
