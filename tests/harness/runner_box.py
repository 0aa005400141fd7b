"""A real runner as a child process, and a small synchronous client that drives it with frames."""

from __future__ import annotations

import atexit
import contextlib
import functools
import itertools
import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sandbox_service.wire import connections
from sandbox_service.wire.frames import Decoder, Frame, Op

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[2]
SYSTEM_PYTHON = "/usr/bin/python3"
INTERPRETER = SYSTEM_PYTHON if os.access(SYSTEM_PYTHON, os.X_OK) else sys.executable
BOOTSTRAP = (
    "import sys; sys.path.insert(0, sys.argv.pop(1));"
    " from sandbox_service.runner.main_process.main import main; main()"
)
ECHO = "sandbox_service.environments.echo.box.world"
_ranges = itertools.count(2_000_000_000 + (os.getpid() % 16_384) * 65_536, 4096)


@functools.cache
def code_root() -> Path:
    """A tree with the box's code and the tests' worlds that agents' user ids can reach.

    The checkout itself may lie below a folder of one user, as a service's code may; boxes get a copy.
    """
    copied = Path(tempfile.mkdtemp(prefix="rb-code-", dir="/tmp"))
    atexit.register(shutil.rmtree, copied, ignore_errors=True)
    skip = shutil.ignore_patterns("__pycache__", "service", "setup", "data")
    for part in (
        "sandbox_service/runner",
        "sandbox_service/wire",
        "sandbox_service/environments",
    ):
        shutil.copytree(ROOT / part, copied / part, ignore=skip)
    shutil.copy(ROOT / "sandbox_service/__init__.py", copied / "sandbox_service")
    (copied / "tests/fakes").mkdir(parents=True)
    shutil.copy(ROOT / "tests/fakes/agent_world.py", copied / "tests/fakes")
    copied.chmod(0o755)
    return copied


def uid_drop_missing() -> str | None:
    """Return why user ids cannot be dropped here; None when they can."""
    if os.geteuid() != 0:
        return "dropping user ids needs root"
    if not os.access(SYSTEM_PYTHON, os.X_OK):
        return f"{SYSTEM_PYTHON} is missing; the interpreter must be reachable by other user ids"
    version = subprocess.run(
        [SYSTEM_PYTHON, "-c", "import sys; print(sys.version_info >= (3, 11))"],
        capture_output=True,
        text=True,
        check=False,
    )
    if version.stdout.strip() != "True":
        return f"{SYSTEM_PYTHON} is older than 3.11"
    return None


class RunnerBox:
    """One runner and a connection to it."""

    def __init__(
        self,
        folder: Path,
        process: subprocess.Popen[bytes],
        config: dict[str, Any],
        wall_timeout_s: float = 30,
    ) -> None:
        self._patience_s = wall_timeout_s
        self.folder = folder
        self.process = process
        self.config = config
        self.token = secrets.token_hex(16)
        self.events: list[Frame] = []
        self.carried: list[Frame] = []
        """Frames of agents' connections."""
        self._early: dict[int, Frame] = {}
        self._sockets: list[socket.socket] = []
        self._ids = itertools.count(1)
        self.connect()

    @property
    def path(self) -> str:
        return str(self.folder / "runner.sock")

    def connect(self) -> None:
        """Connect (again)."""
        deadline = time.monotonic() + 90
        while True:
            self.socket = socket.socket(socket.AF_UNIX)
            try:
                self.socket.connect(self.path)
                break
            except (FileNotFoundError, ConnectionRefusedError):
                self.socket.close()
                if time.monotonic() > deadline or self.process.poll() is not None:
                    raise
                time.sleep(0.005)
        self._sockets.append(self.socket)
        self.socket.settimeout(self._patience_s)
        self._decoder = Decoder()
        self._frames: list[Frame] = []

    def hello(self) -> Frame:
        return self.request(Op.HELLO, meta={"token": self.token}, body=self.config)

    def send(
        self,
        op: Op,
        instance: str = "",
        meta: dict[str, Any] | None = None,
        body: dict[str, Any] | bytes = b"",
    ) -> int:
        """Send a frame; its request id."""
        number = next(self._ids)
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.socket.sendall(Frame(op, number, instance, meta or {}, data).encode())
        return number

    def receive(self) -> Frame:
        """The next frame, whatever it is."""
        while not self._frames:
            data = self.socket.recv(1 << 18)
            if not data:
                raise EOFError
            self._frames = self._decoder.feed(data)
        return self._frames.pop(0)

    def answer(self, number: int) -> Frame:
        """The answer to a request; events are put aside."""
        while number not in self._early:
            self.take()
        return self._early.pop(number)

    def next_carried(self, op: Op) -> Frame:
        """The next frame of that kind of an agent's connection; those before it are dropped."""
        while True:
            while not self.carried:
                self.take()
            if (frame := self.carried.pop(0)).op is op:
                return frame

    def carry(self, frame: Frame) -> None:
        """Send a frame of an agent's connection."""
        self.socket.sendall(frame.encode())

    def event(self) -> Frame:
        """The next event."""
        while not self.events:
            self.take()
        return self.events.pop(0)

    def request(self, op: Op, instance: str = "", **parts: Any) -> Frame:
        return self.answer(self.send(op, instance, **parts))

    def create(self, instance: str, task: dict[str, Any] | None = None, **meta: Any) -> Frame:
        body = {"environment": "echo", "task_id": "t", "task": task or {}, "params": {}}
        return self.request(
            Op.CREATE, instance, meta={"deadline_s": 20, "seed": 1, "max_steps": 1000, **meta}, body=body
        )

    def step(self, instance: str, content: str | dict[str, Any], **meta: Any) -> Frame:
        text = content if isinstance(content, str) else json.dumps(content)
        body = {"message": {"role": "assistant", "content": text}}
        return self.request(Op.STEP, instance, meta={"deadline_s": 20, **meta}, body=body)

    def act(self, instance: str, **call: Any) -> dict[str, Any]:
        """One call of the agent world (tests.fakes.agent_world); what it gave."""
        reply = self.step(instance, call, deadline_s=call.pop("deadline_s", 60))
        assert reply.op is Op.REPLY, reply.body
        info: dict[str, Any] = json.loads(reply.body)["info"]
        return info

    def run_agent(
        self, instance: str, command: list[str], *, timeout_s: float = 30, **changes: Any
    ) -> dict[str, Any]:
        """Run a command as the instance's agent; how it ended."""
        reply = self.answer(self.start_agent(instance, command, timeout_s=timeout_s, **changes))
        assert reply.op is Op.REPLY, reply.body
        end: dict[str, Any] = json.loads(reply.body)
        return end

    def start_agent(
        self,
        instance: str,
        command: list[str],
        *,
        timeout_s: float = 30,
        environment: dict[str, str] | None = None,
        output_bytes: int = 65536,
        **meta: Any,
    ) -> int:
        """Send the request to run a command as the instance's agent; its request id."""
        body = {"command": command, "environment": environment or {}, "output_bytes": output_bytes}
        meta = {"deadline_s": timeout_s + 30, "timeout_s": timeout_s, **meta}
        return self.send(Op.RUN_AGENT, instance, meta, body)

    def release(self, instance: str) -> bool:
        clean: bool = self.request(Op.RELEASE, instance).meta["clean"]
        return clean

    def release_last(self, instance: str) -> dict[str, Any]:
        """Release an instance and have the box cleaned with it; what the runner says of that."""
        return self.request(Op.RELEASE, instance, meta={"reset": True}).meta

    def reset(self) -> Frame:
        return self.request(Op.RESET)

    def processes(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(self.request(Op.STATS).body)["processes"]
        return found

    def resident_kib(self) -> int:
        """Resident memory of the runner, without asking it."""
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1])
        raise AssertionError("the runner is gone")

    def take(self) -> None:
        """Receive one frame and put it aside."""
        frame = self.receive()
        if frame.op is Op.EVENT:
            self.events.append(frame)
        elif frame.op in connections.OPS:
            self.carried.append(frame)
        else:
            self._early[frame.request_id] = frame

    def stop(self) -> None:
        with contextlib.suppress(OSError, EOFError):
            self.request(Op.SHUTDOWN)
        self.hang_up()
        self.process.wait(15)

    def hang_up(self) -> None:
        """Close every connection."""
        for each in self._sockets:
            each.close()


def is_alive(pid: int | str) -> bool:
    """Whether a process runs; the dead that nobody has collected yet do not."""
    try:
        state = Path(f"/proc/{int(pid)}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in ("Z", "X")


def error_code(frame: Frame) -> str:
    assert frame.op is Op.ERROR, frame
    code: str = json.loads(frame.body)["code"]
    return code


@contextlib.contextmanager
def runner_box(
    world: str = ECHO,
    *,
    drop: bool = False,
    wall_timeout_s: float = 120,
    command: tuple[str, ...] = (),
    **changes: Any,
) -> Iterator[RunnerBox]:
    """A runner that has said HELLO, started by ``command``; stopped, with everything of it, at the end."""
    base = next(_ranges)
    folder = Path(tempfile.mkdtemp(prefix="rb-", dir="/tmp"))
    folder.chmod(0o711)
    scratch = folder / "scratch"
    scratch.mkdir()
    scratch.chmod(0o1777 if drop else 0o700)
    config = {
        "world_module": world,
        "agent_code": False,
        "many_per_worker": world == ECHO,
        "workspace_root": str(folder / "w"),
        "scratch": [str(scratch)],
        "drop_uids": drop,
        "uid_base": base + 16 if drop else 0,
        "uid_count": 4000,
        "env_uid": base if drop else 0,
        "limits": {"open_files": 256, "processes": 48 if drop else None, "file_mib": 16},
        **changes,
    }
    process = subprocess.Popen(
        [*command, INTERPRETER, "-I", "-B", "-c", BOOTSTRAP, str(code_root()), str(folder / "runner.sock")],
        env={},
        start_new_session=True,
    )
    box = None
    try:
        box = RunnerBox(folder, process, config, wall_timeout_s)
        reply = box.hello()
        assert reply.op is Op.REPLY, reply.body
        yield box
        box.stop()
    finally:
        if box is not None:
            box.hang_up()
        process.kill()
        process.wait()
        shutil.rmtree(folder, ignore_errors=True)
