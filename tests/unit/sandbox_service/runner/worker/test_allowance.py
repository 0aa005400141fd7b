"""The time of agent code: charged for what it computes and sleeps, not for what the machine keeps from it."""

from __future__ import annotations

import contextlib
import json
import math
import os
import time
from typing import TYPE_CHECKING, Any

import pytest

from sandbox_service.runner.kernel.cpu_usage import CpuUsage
from sandbox_service.runner.worker.allowance import Allowance
from sandbox_service.wire.frames import Op
from tests.harness.busy import ON_A_BUSY_CPU, ON_A_QUIET_CPU, busy_cpu, come_first
from tests.harness.runner_box import error_code, runner_box

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.harness.runner_box import RunnerBox

COMPUTE = "import time\nwhile time.process_time() < {seconds}: pass\nprint('done')"
SCRIPT = 'python3 -c "{code}"'


def spend(
    time_s: float,
    wall_timeout_s: float,
    look: Callable[[float], CpuUsage],
    check: Callable[[], float] | None = None,
) -> Allowance:
    """An allowance that was waited for to its end."""
    allowance = Allowance(time_s, wall_timeout_s, look, still=contextlib.nullcontext, check=check)
    while not allowance.over():
        time.sleep(allowance.wait_s)
    return allowance


def test_sleep_is_charged() -> None:
    allowance = spend(0.2, 60, lambda _: CpuUsage())
    assert allowance.charged_s >= 0.2


def test_a_wait_for_a_processor_is_not_charged_and_ends_with_patience() -> None:
    allowance = spend(0.5, 0.6, lambda _: CpuUsage(0.0, runnable=True))
    assert allowance.charged_s < 0.1
    assert allowance.waited_s > 0.4


def test_what_is_computed_on_many_processors_is_charged_as_time_that_passed() -> None:
    used = iter(range(0, 1_000_000, 10))
    started = time.monotonic()
    allowance = spend(0.2, 60, lambda _: CpuUsage(float(next(used)), runnable=True))
    assert 0.2 <= allowance.charged_s <= time.monotonic() - started


def test_a_sample_need_not_find_more_than_uses_the_allowance_up() -> None:
    asked: list[float] = []

    def look(enough_s: float) -> CpuUsage:
        asked.append(enough_s)
        return CpuUsage(10.0 if len(asked) == 1 else enough_s + 0.01, runnable=True)

    allowance = spend(0.3, 60, look)
    assert asked[0] == math.inf
    assert 10.0 < asked[1] <= 10.3
    assert allowance.charged_s >= 0.3


def test_nothing_is_sampled_once_the_allowance_is_used_up() -> None:
    looks: list[float] = []

    def look(enough_s: float) -> CpuUsage:
        looks.append(enough_s)
        return CpuUsage()

    allowance = spend(0.05, 60, look)
    taken = len(looks)
    time.sleep(0.1)
    assert allowance.over()
    assert len(looks) == taken


def computing_since(started: float) -> Callable[[float], CpuUsage]:
    """Usage as gVisor reports it: all time that passes is processor time."""
    return lambda _: CpuUsage(time.monotonic() - started, runnable=True)


def test_waits_that_a_kernel_reports_as_computing_are_not_charged() -> None:
    started = time.monotonic()
    allowance = spend(0.1, 60, computing_since(started), check=lambda: 0.2)
    passed = time.monotonic() - started
    assert passed >= 0.5
    assert allowance.charged_s >= 0.1
    assert allowance.waited_s >= 0.4


def test_code_that_gets_its_processor_has_no_more_time_where_waits_are_reported_as_computing() -> None:
    checks = iter([0.8])
    allowance = spend(0.2, 60, computing_since(time.monotonic()), check=lambda: next(checks))
    assert allowance.waited_s < 0.2 <= allowance.charged_s


def test_sleep_is_charged_where_waits_are_reported_as_computing() -> None:
    allowance = spend(0.2, 0.6, lambda _: CpuUsage(), check=lambda: 0.01)
    assert allowance.charged_s >= 0.2


def test_the_limit_of_real_time_ends_code_that_a_machine_kept_waiting_whatever_the_kernel_reports() -> None:
    allowance = spend(0.3, 0.31, computing_since(time.monotonic()), check=lambda: 0.01)
    assert allowance.charged_s < allowance.time_s


def test_code_that_cannot_be_stopped_for_a_check_ends_with_its_time_and_is_not_to_blame() -> None:
    allowance = Allowance(0.1, 60, computing_since(time.monotonic()), check=lambda: 0.2)
    while not allowance.over():
        time.sleep(allowance.wait_s)
    assert allowance.charged_s >= allowance.time_s
    assert allowance.starved()


def test_code_that_had_its_processor_is_to_blame() -> None:
    allowance = Allowance(0.1, 60, computing_since(time.monotonic()), check=lambda: 0.9)
    while not allowance.over():
        time.sleep(allowance.wait_s)
    assert not allowance.starved()


def test_what_is_checked_is_stopped_meanwhile() -> None:
    stopped: list[bool] = []

    @contextlib.contextmanager
    def still() -> Iterator[None]:
        stopped.append(True)
        yield
        stopped.append(False)

    def check() -> float:
        assert stopped[-1]
        return 1.0

    allowance = Allowance(0.05, 60, computing_since(time.monotonic()), still=still, check=check)
    while not allowance.over():
        time.sleep(allowance.wait_s)
    assert stopped == [True, False]


@pytest.fixture(scope="module")
def pinned_box(drop: bool) -> Iterator[RunnerBox]:
    """A box on the processor that ``busy_cpu`` keeps busy."""
    with runner_box("tests.fakes.agent_world", drop=drop, agent_code=True, command=ON_A_BUSY_CPU) as box:
        yield box


@pytest.fixture
def busy_box(pinned_box: RunnerBox) -> Iterator[RunnerBox]:
    """A box that gets a fifth of a processor during a test."""
    with busy_cpu():
        yield pinned_box


@pytest.fixture(scope="module")
def quiet_box(drop: bool) -> Iterator[RunnerBox]:
    """A box that gets the processors that it asks for."""
    if os.geteuid() != 0:
        pytest.skip("a higher priority needs root")
    with runner_box("tests.fakes.agent_world", drop=drop, agent_code=True, command=ON_A_QUIET_CPU) as box:
        come_first(box.process.pid)
        yield box


@pytest.mark.parametrize(
    "call",
    [
        {"do": "python", "code": COMPUTE.format(seconds=0.4)},
        {"do": "shell", "command": SCRIPT.format(code=COMPUTE.format(seconds=0.4).replace("\n", "\n"))},
    ],
    ids=["cell", "command"],
)
def test_code_that_the_machine_keeps_waiting_has_its_time_all_the_same(
    busy_box: RunnerBox, call: dict[str, Any]
) -> None:
    assert busy_box.create("patient").op is Op.REPLY
    result = busy_box.act("patient", **call, timeout_s=1.0, wall_timeout_s=50)
    assert (result["output"], result["timed_out"]) == ("done\n", False)
    assert result["duration_s"] > 1.0
    assert busy_box.release("patient")


def test_code_that_sleeps_on_a_busy_machine_is_ended_by_its_own_doing(busy_box: RunnerBox) -> None:
    busy_box.create("asleep")
    result = busy_box.act("asleep", do="shell", command="exec sleep 1000", timeout_s=1.0, wall_timeout_s=50)
    assert (result["timed_out"], result["exit_code"]) == (True, None)
    assert busy_box.release("asleep")


@pytest.mark.parametrize("do", ["python", "shell"])
def test_code_that_the_machine_kept_from_its_time_is_an_error_and_no_observation(
    busy_box: RunnerBox, do: str
) -> None:
    busy_box.create("starved")
    code = "while True: pass" if do == "python" else "while :; do :; done"
    call = {"do": do, "code" if do == "python" else "command": code, "timeout_s": 10, "wall_timeout_s": 2}
    reply = busy_box.step("starved", call, deadline_s=60)
    assert error_code(reply) == "step_timeout"
    assert "too busy" in json.loads(reply.body)["detail"]
    assert busy_box.release("starved")


STORM = """
import os, signal
{before}
def leaf():
    for _ in range(2000): pass
while True:
    try:
        pid = os.fork()
    except OSError:
        continue
    if pid == 0:
        try:
            if not {leaves} or os.fork() == 0:
                leaf()
        finally:
            os._exit(0)
    {after}
"""
CHEATS = {
    "spins in many threads": (
        "import threading\n"
        "def spin():\n"
        "    while True: pass\n"
        "for _ in range(12): threading.Thread(target=spin).start()\n"
        "spin()"
    ),
    "spins where it left its tree": (
        "import os\n"
        "for _ in range(4):\n"
        "    if os.fork() == 0:\n"
        "        os.setsid()\n"
        "        if os.fork(): os._exit(0)\n"
        "        while True: pass\n"
        "    os.wait()\n"
        "while True: pass"
    ),
    "forks what nobody waits for": STORM.format(
        before="signal.signal(signal.SIGCHLD, signal.SIG_IGN)", leaves="False", after="pass"
    ),
    "forks what leaves its tree": STORM.format(before="", leaves="True", after="os.wait()"),
    "is not urgent": "import os\nos.nice(39)\nwhile True: pass",
    "is idle": "import os\nos.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))\nwhile True: pass",
    "stops": "import os, signal\nos.kill(os.getpid(), signal.SIGSTOP)",
}


@pytest.mark.parametrize("name", CHEATS)
def test_code_cannot_make_itself_look_starved(quiet_box: RunnerBox, drop: bool, name: str) -> None:
    if "fork" in CHEATS[name] and not drop:
        pytest.skip("only a user id of its own bounds how many processes a storm has")
    quiet_box.create("cheat")
    code = CHEATS[name]
    result = quiet_box.act("cheat", do="python", code=code, timeout_s=0.6, wall_timeout_s=2)
    assert (result["timed_out"], result["exit_code"]) == (True, None)
    assert quiet_box.release("cheat")


HIDDEN_LOAD = """
import os, signal, time
signal.signal(signal.SIGCONT, lambda *_: open("thawed", "w").close())
for _ in range(6):
    if os.fork() == 0:
        os.setsid()
        # What is not waited for takes its processor time with it.
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        while True:
            if os.fork() == 0:
                while time.process_time() < 0.006: pass
                os._exit(0)
            try:
                os.wait()
            except ChildProcessError:
                pass
"""


def test_a_session_stands_still_while_it_is_found_out_why_a_command_was_late(
    quiet_box: RunnerBox, drop: bool
) -> None:
    """Its processes may hide what they compute, and would make the machine look busy."""
    if not drop:
        pytest.skip("only a user id of its own shows that what runs is the agent's")
    quiet_box.create("crowded")
    quiet_box.act("crowded", do="python", code=HIDDEN_LOAD)
    result = quiet_box.act("crowded", do="shell", command="sleep 1000", timeout_s=2, wall_timeout_s=2)
    assert (result["timed_out"], result["exit_code"]) == (True, None)
    seen = quiet_box.act("crowded", do="python", code="print(os.path.exists('thawed'))")
    assert seen["output"] == "True\n"
    assert quiet_box.release("crowded")


def test_a_session_that_keeps_its_world_waiting_is_charged_for_it(busy_box: RunnerBox) -> None:
    busy_box.create("half")
    code = "import os, time\nos.write(3, bytes([0, 0, 0, 4, 0, 0, 0, 0]) + b'nul')\ntime.sleep(1000)"
    result = busy_box.act("half", do="serve", code=code, timeout_s=1.5)
    assert (result["timed_out"], result["exit_code"]) == (True, None)
    assert busy_box.release("half")
