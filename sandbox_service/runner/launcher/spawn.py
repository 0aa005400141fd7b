"""Start agent processes: everything between a fork of the launcher and the first instruction of agent code.

The launcher never saw a task, a token or ground truth, so that an agent may read a copy of its memory. The
child keeps exactly the descriptors that it is given.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import resource
import socket
import stat
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sandbox_service.runner.config import AGENT_PATH
from sandbox_service.runner.kernel import privileges
from sandbox_service.runner.kernel.confinement import (
    confine,
    keep_abstract_sockets_apart,
    refuse_sockets,
    refuse_unix_sockets,
)
from sandbox_service.runner.kernel.pids_cgroup import join_group
from sandbox_service.runner.untrusted.candidate import serve_candidate
from sandbox_service.runner.untrusted.files import serve_files
from sandbox_service.runner.untrusted.session import serve_session

if TYPE_CHECKING:
    from sandbox_service.runner.kernel.mount_namespace import MountNamespace
    from sandbox_service.runner.kernel.privileges import Identity, ProcessLimits


FIRST = 3
"""Number of the first descriptor that a child is given."""
_LONGEST_ARGUMENT = 100_000
"""The kernel takes 128 KiB in one argument."""
_SHELLS = ("/bin/bash", "/usr/bin/bash", "/bin/sh")
FAILED = 125
"""Exit code of a child that could not get as far as its program."""


@dataclass(frozen=True, slots=True)
class ChildContext:
    """The folder, user ids and limits of a child."""

    directory: str
    """Its working directory, made where it is missing."""
    temporary: str | None
    """An own directory for temporary files; the system's when None."""
    identity: Identity | None
    """None: as the launcher."""
    limits: ProcessLimits
    system_calls: bytes = b""
    """The filter of its system calls; empty for none."""
    namespace: MountNamespace | None = None
    """Its private folders; None where instances share them."""

    def enter(self) -> None:
        """Create the directories where they are missing, check that this user owns them, and go there."""
        for path in (self.directory, self.temporary):
            if path is not None:
                _own_directory(path)
        os.chdir(self.directory)

    def environment(self) -> dict[str, str]:
        """Return the environment variables of the child; none comes from the runner."""
        variables = {"HOME": self.directory, "LANG": "C.UTF-8", "PATH": AGENT_PATH, "USER": "agent"}
        if self.temporary is not None:
            variables["TMPDIR"] = self.temporary
        return variables


def _own_directory(path: str) -> None:
    try:
        os.mkdir(path, 0o700)  # noqa: PTH102
    except FileExistsError:
        found = os.lstat(path)
        if not stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid():
            # Put there by this user itself, which could have nothing started, not even what grades it.
            os.unlink(path)  # noqa: PTH108
            os.mkdir(path, 0o700)  # noqa: PTH102
            return
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
            raise PermissionError(errno.EPERM, "not a directory of ours", path) from None
        if found.st_mode & 0o700 != 0o700:
            # Closed by this user itself, which could have nothing started in it, not even what grades it.
            os.chmod(path, 0o700)  # noqa: PTH101


def fork_child(place: ChildContext, descriptors: list[int], run: Callable[[], None]) -> int:
    """Fork a child that enters ``place``, keeps ``descriptors`` from 3 on, and calls ``run``; return its pid.

    Raises OSError when no process can be made.
    """
    pid = os.fork()
    if pid == 0:
        code = FAILED
        try:
            _settle(place, descriptors)
            run()
            code = 0
        except OSError as error:
            os.write(2, f"cannot start: {error.strerror}\n".encode())
        finally:
            os._exit(code)
    return pid


def _settle(place: ChildContext, descriptors: list[int]) -> None:
    """Give up everything that an agent must not have. The order of the steps matters."""
    # No terminal, and no signal that is sent to the launcher's process group.
    os.setsid()
    privileges.reset_signals()
    # Entering a mount namespace needs CAP_SYS_ADMIN and the namespace's descriptor: before both are given up.
    if place.namespace is not None:
        place.namespace.enter()
    _arrange(descriptors)
    # While undumpable, /proc/self belongs to root, and oom_score_adj could not be written without privileges.
    privileges.be_undumpable(False)
    privileges.make_first_victim()
    if place.limits.pids_group is not None:
        join_group(place.limits.pids_group)
    if place.identity is not None:
        # Takes the last capability: what needs one comes before.
        privileges.become(place.identity)
        # A change of user ids makes a process undumpable again; /dev/stdout needs it dumpable.
        privileges.be_undumpable(place.identity.real != place.identity.effective)
    elif os.geteuid() == 0:
        privileges.give_up_capabilities()
    # Before the filter, which the kernel takes only from a process that can gain no privileges.
    privileges.refuse_new_privileges()
    # After the change of user ids, which clears it.
    privileges.die_with_parent()
    # After it as well: a process that changes to a user id which is above the bound on processes is marked,
    # and its execve fails with EAGAIN.
    place.limits.apply()
    if place.system_calls:
        # Landlock first: the filter need not allow its system calls.
        keep_abstract_sockets_apart()
        confine(place.system_calls)
    os.umask(0o077)
    os.environ.clear()
    os.environ.update(place.environment())


def _arrange(descriptors: list[int]) -> None:
    """Put 0 to 2 on /dev/null and the given descriptors from 3 on, and close everything else."""
    # The soft limit may be below the numbers that are needed for a moment; ``ProcessLimits`` lowers it later.
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    # First out of the way, above all targets: dup2 would close a given descriptor that lies on a target.
    high = [fcntl.fcntl(each, fcntl.F_DUPFD, 64) for each in (os.open(os.devnull, os.O_RDWR), *descriptors)]
    null, *given = high
    for target in range(FIRST):
        os.dup2(null, target)
    for target, source in enumerate(given, start=FIRST):
        os.dup2(source, target, inheritable=False)
    privileges.close_all_but(FIRST + len(given))


def run_session(place: ChildContext) -> None:
    """Become a Python session; descriptor 3 is its control socket."""
    place.enter()
    serve_session(socket.socket(fileno=FIRST))


def run_shell(place: ChildContext) -> None:
    """Become ``bash -c``; descriptor 3 holds the command, 4 takes the output."""
    os.dup2(FIRST + 1, 1)
    os.dup2(FIRST + 1, 2)
    os.close(FIRST + 1)
    place.enter()
    size = os.fstat(FIRST).st_size
    privileges.default_signals()
    shell = next(filter(os.path.exists, _SHELLS))
    if size <= _LONGEST_ARGUMENT:
        command = os.fsdecode(os.pread(FIRST, size, 0).replace(b"\0", b""))
        os.execve(shell, [shell, "-c", command], place.environment())
    # Too long for an argument: the shell reads it as a script, from a descriptor that exec must not close.
    os.set_inheritable(FIRST, True)
    os.execve(shell, [shell, f"/dev/fd/{FIRST}"], place.environment())


def run_program(place: ChildContext) -> None:
    """Become a program; descriptor 3 describes it in JSON, 4 and 5 take its output and its errors."""
    for target, source in ((1, FIRST + 1), (2, FIRST + 2)):
        os.dup2(source, target)
        os.close(source)
    place.enter()
    described = json.loads(os.pread(FIRST, os.fstat(FIRST).st_size, 0))
    variables = place.environment() | described["environment"]
    privileges.default_signals()
    words = [os.fsencode(word) for word in described["command"]]
    os.execvpe(words[0], words, variables)


def run_files(place: ChildContext) -> None:
    """Answer one file request on descriptor 3."""
    serve_files(socket.socket(fileno=FIRST), place.directory, place.enter)


def run_candidate(place: ChildContext, entry: str, sockets: bool) -> None:
    """Become a candidate, with sockets of its own or without; descriptor 3 is its control socket."""
    place.enter()
    # The solution could send hidden arguments to its agent: over loopback, or by an abstract socket, which
    # no file's mode guards.
    if (sockets or not refuse_sockets()) and not keep_abstract_sockets_apart():
        refuse_unix_sockets()
    sys.path.insert(0, "")
    serve_candidate(socket.socket(fileno=FIRST), entry)
