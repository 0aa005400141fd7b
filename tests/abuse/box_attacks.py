# ruff: noqa: BLE001, PTH104, PTH108, PTH109, PTH110, PTH116, PTH123, PTH208, SIM115, T201
"""Hostile code inside a box: it runs there as a cell of the agent's session, and prints JSON.

Every attack records what happened and goes on. Nothing here may end the session.
"""

import contextlib
import ctypes
import errno
import json
import os
import platform
import resource
import signal
import socket
import stat

REPORT = {}
LIBC = ctypes.CDLL(None, use_errno=True)
X86 = platform.machine() == "x86_64"

# name: (number on x86_64, number on aarch64, first arguments)
SYSCALLS = {
    "acct": (163, 89, ()),
    "add_key": (248, 217, ()),
    "bpf": (321, 280, ()),
    "chroot": (161, 51, (b"/tmp",)),
    "clock_settime": (227, 112, ()),
    "delete_module": (176, 106, ()),
    "fanotify_init": (300, 262, ()),
    "finit_module": (313, 273, ()),
    "fsopen": (430, 430, ()),
    "io_setup": (206, 0, ()),
    "io_uring_enter": (426, 426, ()),
    "io_uring_register": (427, 427, ()),
    "io_uring_setup": (425, 425, (8,)),
    "kcmp": (312, 272, (1, 1)),
    "kexec_file_load": (320, 294, ()),
    "kexec_load": (246, 104, ()),
    "keyctl": (250, 219, ()),
    "landlock_add_rule": (445, 445, (0, 0, 0, 0)),
    "memfd_secret": (447, 447, ()),
    "mount": (165, 40, (b"none", b"/tmp", b"tmpfs")),
    "mount_setattr": (442, 442, ()),
    "move_mount": (429, 429, ()),
    "mq_open": (240, 180, (b"queue", 0o102)),
    "msgget": (68, 186, (0,)),
    "name_to_handle_at": (303, 264, ()),
    "open_by_handle_at": (304, 265, ()),
    "open_tree": (428, 428, ()),
    "perf_event_open": (298, 241, ()),
    "pidfd_getfd": (438, 438, ()),
    "pivot_root": (155, 41, ()),
    "process_madvise": (440, 440, ()),
    "process_vm_readv": (310, 270, (1,)),
    "process_vm_writev": (311, 271, (1,)),
    "ptrace": (101, 117, (16, 1)),
    "quotactl": (179, 60, ()),
    "reboot": (169, 142, ()),
    "request_key": (249, 218, ()),
    "seccomp": (317, 277, ()),
    "semget": (64, 190, (0, 1, 0o600)),
    "sethostname": (170, 161, (b"x", 1)),
    "setns": (308, 268, ()),
    "settimeofday": (164, 170, ()),
    "setxattr": (188, 5, (b"/tmp", b"user.x", b"1", 1, 0)),
    "shmget": (29, 194, (0, 4096, 0o600)),
    "splice": (275, 76, ()),
    "swapon": (167, 224, ()),
    "sync": (162, 81, ()),
    "syslog": (103, 116, (3,)),
    "umount2": (166, 39, (b"/tmp", 2)),
    "unshare_net": (272, 97, (0x40000000,)),
    "unshare_user": (272, 97, (0x10000000,)),
    "userfaultfd": (323, 282, ()),
    "vmsplice": (278, 75, ()),
    "clone3": (435, 435, ()),
    "clone_newuser": (56, 220, (0x10000000 | 17,)),
    "clone_newns": (56, 220, (0x00020000 | 17,)),
    "personality_no_random": (135, 92, (0x0040000,)),
}


def outcome(attempt):
    """``ok``, or the name of the error."""
    try:
        attempt()
    except OSError as error:
        return errno.errorcode.get(error.errno, type(error).__name__)
    return "ok"


def system_call(number, arguments):
    ctypes.set_errno(0)
    padded = [*arguments, *[0] * (6 - len(arguments))]
    if LIBC.syscall(ctypes.c_long(number), *padded) == -1:
        return errno.errorcode[ctypes.get_errno()]
    return "ok"


def syscalls():
    return {name: system_call(each[0] if X86 else each[1], each[2]) for name, each in SYSCALLS.items()}


def sockets():
    def attempt(*kind):
        return outcome(lambda: socket.socket(*kind).close())

    families = {
        str(family): sorted({attempt(family, kind) for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM)})
        for family in range(1, 46)
    }
    return {
        "families": [int(family) for family, found in families.items() if "ok" in found],
        "raw": attempt(socket.AF_INET, socket.SOCK_RAW, 255),
        "ping": attempt(socket.AF_INET, socket.SOCK_DGRAM, 1),
        "sctp": attempt(socket.AF_INET, socket.SOCK_STREAM, 132),
        "sctp_by_type": attempt(socket.AF_INET, socket.SOCK_SEQPACKET),
        "udplite": attempt(socket.AF_INET, socket.SOCK_DGRAM, 136),
        "mptcp": attempt(socket.AF_INET, socket.SOCK_STREAM, 262),
    }


def network():
    def connect(address, family=socket.AF_INET, kind=socket.SOCK_STREAM):
        with socket.socket(family, kind) as caller:
            caller.settimeout(2)
            caller.connect(address)

    return {
        "bridge": outcome(lambda: connect(("172.17.0.1", 80))),
        "metadata": outcome(lambda: connect(("169.254.169.254", 80))),
        "dns": outcome(lambda: connect(("8.8.8.8", 53), kind=socket.SOCK_DGRAM)),
        "v6": outcome(lambda: connect(("2001:db8::1", 80), socket.AF_INET6)),
        "interfaces": [line.split(":")[0].strip() for line in open("/proc/net/dev") if ":" in line],
    }


def device_files():
    for folder, _, names in os.walk("/dev"):
        for path in (f"{folder}/{name}" for name in names):
            with contextlib.suppress(OSError):
                mode = os.stat(path).st_mode
                if stat.S_ISCHR(mode) or stat.S_ISBLK(mode):
                    yield path


def devices():
    def node(kind, major, minor):
        os.mknod("/tmp/node", kind | 0o666, os.makedev(major, minor))

    def touch(name):
        os.close(os.open(f"/dev/{name}", os.O_RDWR | os.O_NONBLOCK | os.O_NOCTTY))

    listed = sorted(path.removeprefix("/dev/") for path in device_files())
    return {
        "listed": listed,
        "opened": [name for name in listed if outcome(lambda n=name: touch(n)) == "ok"],
        "memory": outcome(lambda: node(stat.S_IFCHR, 1, 1)),
        "disk": outcome(lambda: node(stat.S_IFBLK, 8, 0)),
        "kmsg": outcome(lambda: node(stat.S_IFCHR, 1, 11)),
        "fifo": outcome(lambda: os.mkfifo("/tmp/fifo")),
        "terminal": outcome(lambda: open("/dev/tty").close()),
    }


def everything(top="/"):
    """Every directory of the box but /proc and /sys; a process's own are looked at elsewhere."""
    for folder, names, files in os.walk(top):
        if folder == "/":
            names[:] = [name for name in names if name not in ("proc", "sys")]
        yield folder, files


def files():
    privileged, written, truths = [], [], []
    for folder, names in everything():
        target = f"{folder}/intruder"
        with contextlib.suppress(OSError):
            os.close(os.open(target, os.O_CREAT | os.O_WRONLY, 0o600))
            written.append(folder)
            os.unlink(target)
        for name in names:
            path = f"{folder}/{name}"
            with contextlib.suppress(OSError):
                found = os.lstat(path)
                if stat.S_ISREG(found.st_mode) and found.st_mode & 0o6000:
                    privileged.append(path)
                if stat.S_ISREG(found.st_mode) and found.st_uid != os.getuid() and os.access(path, os.W_OK):
                    written.append(path)
                if "catalog" in name or {"service", "setup", "data"} & set(folder.split("/")):
                    truths.append(path)
    here = os.getcwd()
    return {
        "privileged": privileged,
        "written": sorted(path for path in written if not f"{path}/".startswith(f"{here}/")),
        "truths": [path for path in truths if path.startswith("/opt/sandbox")],
    }


def kernel_files():
    def write(path, text=b"1"):
        with open(path, "wb", buffering=0) as file:
            file.write(text)

    def some(top, depth):
        """Files below a directory, at most so deep."""
        for folder, names, found in os.walk(top):
            if folder.count("/") - top.count("/") >= depth:
                names.clear()
            yield from (f"{folder}/{name}" for name in found)

    taken = [
        path
        for top in ("/proc/sys", "/sys")
        for path in some(top, 4)
        if outcome(lambda p=path: write(p)) == "ok"
    ]

    def size(path):
        with contextlib.suppress(FileNotFoundError), open(path, "rb") as file:
            return len(file.read())
        return 0

    return {
        "taken": taken,
        "core_pattern": outcome(lambda: write("/proc/sys/kernel/core_pattern", b"|/tmp/x")),
        "sysrq": outcome(lambda: write("/proc/sysrq-trigger", b"h")),
        "release_agent": [
            path
            for folder, _, found in os.walk("/sys/fs/cgroup")
            for path in (
                f"{folder}/{name}"
                for name in found
                if name in ("release_agent", "cgroup.procs", "devices.allow")
            )
            if outcome(lambda p=path: write(p)) == "ok"
        ],
        "secrets": {path: size(path) for path in ("/proc/kallsyms", "/proc/cmdline", "/proc/keys")},
        "sockets": [
            path
            for path in ("/var/run/docker.sock", "/run/docker.sock", "/run/containerd/containerd.sock")
            if os.path.exists(path)
        ],
    }


def neighbours():
    """Other processes of the box, the runner first of all."""

    def read(path):
        with open(path, "rb") as file:
            if not file.read():
                raise PermissionError(errno.EACCES, "there is nothing in it")

    def open_descriptors(pid):
        """Open what another process has open: pipes, sockets and files."""
        folder = f"/proc/{pid}/fd"
        held = [outcome(lambda p=f"{folder}/{name}": os.listdir(p)) for name in os.listdir(folder)]
        held += [outcome(lambda p=f"{folder}/{name}": read(p)) for name in os.listdir(folder)]
        if "ok" not in held:
            raise PermissionError(errno.EACCES, "none could be opened")

    own = {os.getpid()}
    seen = {}
    for name in os.listdir("/proc"):
        if not name.isdigit() or int(name) in own:
            continue
        pid = int(name)
        seen[name] = {
            "environ": outcome(lambda p=pid: read(f"/proc/{p}/environ")),
            "memory": outcome(lambda p=pid: open(f"/proc/{p}/mem", "rb").close()),
            "descriptors": outcome(lambda p=pid: os.listdir(f"/proc/{p}/fd")),
            "open files": outcome(lambda p=pid: open_descriptors(p)),
            "root": outcome(lambda p=pid: os.listdir(f"/proc/{p}/root/")),
            "signal": outcome(lambda p=pid: os.kill(p, 0)),
            "priority": outcome(lambda p=pid: os.setpriority(os.PRIO_PROCESS, p, 19)),
            "cores": outcome(lambda p=pid: os.sched_setaffinity(p, os.sched_getaffinity(0))),
            "scheduler": outcome(lambda p=pid: os.sched_setscheduler(p, 0, os.sched_param(0))),
            "limits": outcome(lambda p=pid: resource.prlimit(p, resource.RLIMIT_CORE, (0, 0))),
            "disk priority": system_call(251 if X86 else 30, (1, pid, 2 << 13 | 7)),
        }
    return seen


def identity():
    def become(call):
        return outcome(lambda: call(0))

    status = dict(
        line.split(":\t", 1) for line in open("/proc/self/status").read().splitlines() if ":\t" in line
    )
    with contextlib.suppress(OSError):
        os.killpg(0, 0)
    return {
        "uid": os.getuid(),
        "groups": os.getgroups(),
        "setuid": become(os.setuid),
        "setgid": become(os.setgid),
        "setgroups": outcome(lambda: os.setgroups([0])),
        "capabilities": {
            key: int(status[key], 16) for key in status if key in ("CapInh", "CapPrm", "CapEff", "CapAmb")
        },
        "no_new_privileges": LIBC.prctl(
            39, 0, 0, 0, 0
        ),  # PR_GET_NO_NEW_PRIVS; gVisor's status has no line of it
        "seccomp": status["Seccomp"].strip(),
        "environment": sorted(os.environ),
        "descriptors": sorted(os.listdir("/proc/self/fd"), key=int),
        "nice": outcome(lambda: os.setpriority(os.PRIO_PROCESS, 0, -5)),
        "real_time": outcome(lambda: os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))),
        "open_files": outcome(lambda: raise_limit(resource.RLIMIT_NOFILE)),
        "core": outcome(lambda: raise_limit(resource.RLIMIT_CORE)),
        "hostname": socket.gethostname(),
    }


def raise_limit(which):
    _, hard = resource.getrlimit(which)
    try:
        resource.setrlimit(which, (hard + 1, hard + 1))
    except ValueError as error:
        raise PermissionError(errno.EPERM, str(error)) from error


def private_folder():
    path = "/run/sandbox"

    def connect():
        with socket.socket(socket.AF_UNIX) as caller:
            caller.connect(f"{path}/runner.sock")

    return {
        "list": outcome(lambda: os.listdir(path)),
        "connect": outcome(connect),
        "unlink": outcome(lambda: os.unlink(f"{path}/runner.sock")),
        "rename": outcome(lambda: os.rename(path, "/run/mine")),
        "bind": outcome(lambda: socket.socket(socket.AF_UNIX).bind(f"{path}/mine.sock")),
    }


def everyone_at_once():
    """A signal to all that we may reach: from a child, which is the only one that is to feel it."""
    child = os.fork()
    if child == 0:
        os.setsid()
        with contextlib.suppress(OSError):
            os.kill(1, signal.SIGKILL)
        os._exit(0)
    os.waitpid(child, 0)
    return "alive"


for attack in (
    identity,
    syscalls,
    sockets,
    network,
    devices,
    files,
    kernel_files,
    neighbours,
    private_folder,
    everyone_at_once,
):
    try:
        REPORT[attack.__name__] = attack()
    except Exception as error:
        REPORT[attack.__name__] = f"{type(error).__name__}: {error}"
print(json.dumps(REPORT))
