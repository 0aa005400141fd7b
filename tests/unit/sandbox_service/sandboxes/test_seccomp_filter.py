"""The kernel's filter for process boxes: the program says of each call what the list says."""

import json
import platform
import re
import struct
from importlib.resources import files
from pathlib import Path

import pytest

from sandbox_service.sandboxes.seccomp import filter_program, seccomp_profile

PROFILE = json.loads(seccomp_profile())
NUMBERS = json.loads(files("sandbox_service.sandboxes").joinpath("syscall_numbers.json").read_text())
MACHINES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
ALLOW, EPERM, ENOSYS, KILL = 0x7FFF0000, 0x00050001, 0x00050026, 0x80000000
HEADER = Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h")


def verdict(machine, number, arguments=(), architecture=None, **options):
    """Return the kernel's verdict on a call: the program, run as the kernel runs it."""
    padded = [*arguments, *[0] * (6 - len(arguments))]
    data = struct.pack("=IIQ6Q", number, architecture or MACHINES[machine], 0, *padded)
    program = list(struct.iter_unpack("=HBBI", filter_program(machine, **options)))
    accumulator, place = 0, 0
    while True:
        code, yes, no, operand = program[place]
        place += 1
        if code == 0x20:
            (accumulator,) = struct.unpack_from("=I", data, operand)
        elif code == 0x54:
            accumulator &= operand
        elif code == 0x06:
            return operand
        else:
            holds = {
                0x15: accumulator == operand,
                0x35: accumulator >= operand,
                0x25: accumulator > operand,
            }[code]
            place += yes if holds else no


@pytest.mark.parametrize("machine", MACHINES)
def test_the_program_allows_what_the_list_allows_and_nothing_else(machine):
    allowed = {
        NUMBERS[machine][name]
        for rule in PROFILE["syscalls"]
        if rule["action"] == "SCMP_ACT_ALLOW" and not rule.get("args")
        for name in rule["names"]
        if name in NUMBERS[machine]
    }
    missing = {NUMBERS[machine][name] for name in ("clone3", "io_uring_setup", "io_uring_enter")}
    judged_by_arguments = {
        NUMBERS[machine][name]
        for rule in PROFILE["syscalls"]
        if rule.get("args")
        for name in rule["names"]
        if name in NUMBERS[machine]
    }
    for number in range(1024):
        if number in allowed:
            assert verdict(machine, number) == ALLOW, number
        elif number in missing:
            assert verdict(machine, number) == ENOSYS, number
        elif number not in judged_by_arguments and number != NUMBERS[machine]["io_uring_register"]:
            assert verdict(machine, number, (1, 1)) == EPERM, number


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize(
    ("name", "arguments", "allowed"),
    [
        ("socket", (1, 1, 0), True),
        ("socket", (2, 1 | 0o4000 | 0o2000000, 6), True),
        ("socket", (10, 2, 17), True),
        ("socket", (2, 3, 0), False),
        ("socket", (2, 1, 262), False),
        ("socket", (16, 3, 0), False),
        ("socket", (40, 1, 0), False),
        ("socket", (1 | 40 << 32, 1, 0), False),
        ("socketpair", (1, 1, 0), True),
        ("socketpair", (2, 1, 0), False),
        ("clone", (17,), True),
        ("clone", (0x10000000 | 17,), False),
        ("clone", (0x00020000 | 17,), False),
        ("personality", (0,), True),
        ("personality", (0xFFFFFFFF,), True),
        ("personality", (0x0040000,), False),
        ("mknodat", (0, 0, 0o010600), True),
        ("mknodat", (0, 0, 0o020600), False),
    ],
)
def test_arguments_decide_where_the_list_says_so(machine, name, arguments, allowed):
    assert verdict(machine, NUMBERS[machine][name], arguments) == (ALLOW if allowed else EPERM)


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize(
    ("name", "arguments", "own"),
    [
        ("setpriority", (0, 0, 5), True),
        ("setpriority", (0, 1, 5), False),
        ("sched_setaffinity", (0, 8, 1), True),
        ("sched_setaffinity", (1, 8, 1), False),
        ("sched_setattr", (1,), False),
        ("sched_setparam", (1,), False),
        ("sched_setscheduler", (1 << 32,), False),
    ],
)
def test_scheduling_may_be_limited_to_the_caller_itself(machine, name, arguments, own):
    number = NUMBERS[machine][name]
    assert verdict(machine, number, arguments) == ALLOW
    assert verdict(machine, number, arguments, own_scheduling_only=True) == (ALLOW if own else EPERM)


def test_no_other_calling_convention_leads_around_the_filter():
    number = NUMBERS["x86_64"]["read"]
    assert verdict("x86_64", number | 0x40000000) == EPERM
    assert verdict("x86_64", number, architecture=0x40000003) == KILL
    assert verdict("aarch64", NUMBERS["aarch64"]["read"], architecture=0x40000028) == KILL


def test_every_call_of_the_list_has_a_number_on_some_machine():
    named = {name for rule in PROFILE["syscalls"] for name in rule["names"]}
    assert named - NUMBERS["x86_64"].keys() - NUMBERS["aarch64"].keys() == {"fadvise64_64"}


@pytest.mark.skipif(not HEADER.is_file(), reason="needs the kernel's headers for x86_64")
def test_the_numbers_are_those_of_the_kernels_headers():
    known = {name: int(number) for name, number in re.findall(r"__NR_(\w+)\s+(\d+)", HEADER.read_text())}
    told = NUMBERS["x86_64"]
    assert {name: number for name, number in told.items() if known.get(name, number) != number} == {}


def test_a_machine_whose_numbers_are_unknown_gets_no_filter():
    assert filter_program("riscv64") is None
    assert (filter_program() is None) == (platform.machine() not in MACHINES)
