"""Set privileges, limits, descriptors and attributes of processes. Linux only.

These are the single steps between a fork and the first instruction of foreign code; ``launcher.spawn`` puts
them in order.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import resource
import signal
import struct
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass

_PR_SET_PDEATHSIG = 1
_PR_SET_DUMPABLE = 4
_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_NO_NEW_PRIVS = 38
_CAPABILITY_VERSION_3 = 0x20080522
_IPC_RMID = 0


@dataclass(frozen=True, slots=True)
class Identity:
    """User ids of a process; the group id is the effective user id."""

    effective: int
    """The owner of the files that it creates; it may signal processes of this user."""
    real: int
    """The user that may signal it; another one than ``effective`` for helpers that agents must not kill."""

    @classmethod
    def of(cls, uid: int) -> Identity:
        """Return the rights of an ordinary process of ``uid``."""
        return cls(uid, uid)


@dataclass(frozen=True, slots=True)
class ProcessLimits:
    """Resource limits of one agent process, or of one user id."""

    open_files: int = 1024
    """File descriptors of a process."""
    processes: int | None = None
    """Processes and threads of a user id; None leaves it to the box."""
    address_space_mib: int | None = None
    """Address space of a process; None leaves it to the box."""
    file_mib: int | None = None
    """Longest file that a process can write."""
    pids_group: str | None = None
    """Folder of the control group that bounds the processes of all agents together, in place of their user
    ids' own limits; None where the kernel counts them by user id."""

    def apply(self) -> None:
        """Limit the calling process and its descendants."""
        _lower(resource.RLIMIT_CORE, 0)
        # POSIX message queues outlive their processes, and no folder shows whose they are.
        _lower(resource.RLIMIT_MSGQUEUE, 0)
        _lower(resource.RLIMIT_NOFILE, self.open_files)
        if self.processes is not None:
            _lower(resource.RLIMIT_NPROC, self.processes)
        if self.address_space_mib is not None:
            _lower(resource.RLIMIT_AS, self.address_space_mib << 20)
        if self.file_mib is not None:
            _lower(resource.RLIMIT_FSIZE, self.file_mib << 20)


def _lower(which: int, value: int) -> None:
    """Set soft and hard limit, never above the hard limit that is there."""
    soft, hard = resource.getrlimit(which)
    bound = value if hard == resource.RLIM_INFINITY else min(value, hard)
    # gVisor does not let a process set some of the limits, not even to the value that they have.
    if (soft, hard) != (bound, bound):
        resource.setrlimit(which, (bound, bound))


@functools.cache
def libc() -> ctypes.CDLL:
    """Return the C library."""
    return ctypes.CDLL(None, use_errno=True)


def check(result: int) -> None:
    """Raise the OSError that a call of the C library reports by a negative result."""
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def _prctl(option: int, value: int) -> None:
    zero = ctypes.c_ulong(0)
    check(libc().prctl(ctypes.c_int(option), ctypes.c_ulong(value), zero, zero, zero))


def be_undumpable(hidden: bool = True) -> None:
    """Keep memory, descriptors and environment from processes of the same user id, or open them again."""
    _prctl(_PR_SET_DUMPABLE, 0 if hidden else 1)


def become_reaper() -> None:
    """Adopt orphaned descendants, so that a double fork does not leave our tree."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def die_with_parent() -> None:
    """Have the kernel kill this process when its parent ends. A change of user ids clears this."""
    # A parent that has ended already sends nothing (prctl(2)). The subreaper above has inherited this process
    # then, and kills all its descendants when it ends.
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def refuse_new_privileges() -> None:
    """Deprive setuid programs of their effect, for this process and all its descendants."""
    _prctl(_PR_SET_NO_NEW_PRIVS, 1)


def give_up_capabilities() -> None:
    """Keep no capability, only the rights of an owner; for root where no other user id can be taken.

    With ``refuse_new_privileges`` no program that is started gets one back. Without capabilities root cannot
    look into undumpable processes of its own user id, such as those of the runner.
    """
    header = struct.pack("=Ii", _CAPABILITY_VERSION_3, 0)
    check(libc().capset(header, bytes(24)))


def make_first_victim() -> None:
    """Have the kernel kill this process first when memory runs out. Call it before the change of user id."""
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "wb", buffering=0) as file:  # noqa: PTH123
        file.write(b"1000")


def reset_signals() -> None:
    """Undo what the runner changed: a Python child has the handlers of a fresh interpreter."""
    # First: the descriptor's number will be another file's, into which a signal would write a byte.
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def default_signals() -> None:
    """Undo what Python changed, before another program takes its place.

    SIGXFSZ stays ignored, as it is in a session: a file at its limit is an error of the write, not a death.
    """
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)


def become(identity: Identity, groups: Sequence[int] = ()) -> None:
    """Change to other user ids and to ``groups`` irrevocably; afterwards no capability is left."""
    if 0 in (identity.effective, identity.real):
        raise ValueError("nothing drops to root")
    group = identity.effective
    # Groups first: the capability to change them goes with the last user id that is root's (capabilities(7)).
    # The saved id is the real one, since kill(2) asks for the target's real and saved ids.
    os.setgroups(groups)
    os.setresgid(group, group, group)
    os.setresuid(identity.real, identity.effective, identity.real)
    if os.getresuid() != (identity.real, identity.effective, identity.real):
        raise PermissionError("the user ids did not change")


def close_all_but(keep: int) -> None:
    """Close every descriptor from ``keep`` on."""
    # The end comes from what is open, not from RLIMIT_NOFILE: descriptors outlive a limit that was lowered,
    # and where the C library lacks close_range(2) each number up to a limit of a million would cost a call.
    last = max(int(name) for name in os.listdir("/proc/self/fd"))  # noqa: PTH208
    os.closerange(keep, last + 1)


def remove_ipc_objects(uid: int) -> None:
    """Remove the System V objects that the calling process's user made; they outlive their processes."""
    calls: dict[str, Callable[[int], object]] = {
        "shm": lambda key: libc().shmctl(key, _IPC_RMID, None),
        "sem": lambda key: libc().semctl(key, 0, _IPC_RMID),
        "msg": lambda key: libc().msgctl(key, _IPC_RMID, None),
    }
    for kind, remove in calls.items():
        for key in ipc_objects(kind, {uid}):
            remove(key)


def ipc_objects(kind: str, uids: Container[int]) -> list[int]:
    """Ids of the System V objects (``shm``, ``sem``, ``msg``) that belong to ``uids``."""
    try:
        with open(f"/proc/sysvipc/{kind}", encoding="ascii") as file:  # noqa: PTH123
            names, *rows = (line.split() for line in file)
    except (OSError, ValueError):
        return []
    key, owner, creator = 1, names.index("uid"), names.index("cuid")
    return [int(row[key]) for row in rows if int(row[owner]) in uids or int(row[creator]) in uids]
