"""The allow-list of system calls, in the two forms in which boxes use it.

``seccomp.json`` is the list. A Docker engine takes it unchanged; processes of a process box get the same
rules as a BPF program for the kernel, compiled here so that the box needs no library for it.
"""

from __future__ import annotations

import json
import platform
import struct
from collections.abc import Iterable, Iterator
from functools import cache
from importlib.resources import files
from typing import Any, Final

_LOAD, _RETURN, _AND = 0x20, 0x06, 0x54
_IF_EQUAL, _IF_AT_LEAST, _IF_ABOVE = 0x15, 0x35, 0x25
_ALLOW, _KILL, _ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
_NUMBER_AT, _ARCHITECTURE_AT, _ARGUMENTS_AT = 0, 4, 16
_WORD: Final = 0xFFFFFFFF
_ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_X32 = 0x40000000
"""Set in the numbers of x86_64's x32 ABI, which reaches every call by a second number."""
_SUBJECT_AT = {
    "sched_setaffinity": 0,
    "sched_setattr": 0,
    "sched_setparam": 0,
    "sched_setscheduler": 0,
    "setpriority": 1,
}
"""Calls that change how a process is scheduled: the place of the argument that names it, 0 for the caller."""

_Instruction = tuple[int, int, int, int]
"""Code, jump if true, jump if false, operand."""


def seccomp_profile() -> str:
    """Return the list in the form that Docker takes."""
    return json.dumps(_profile(), separators=(",", ":"))


@cache
def filter_program(machine: str = "", *, own_scheduling_only: bool = False) -> bytes | None:
    """Return the list as an array of ``struct sock_filter``; None for a machine whose numbers are unknown.

    ``own_scheduling_only`` is for kernels that let everybody change niceness and cores of any process, as
    gVisor's does: a process may then change its own only, named by 0.
    """
    machine = machine or platform.machine()
    if machine not in _ARCHITECTURES:
        return None
    profile = _profile()
    numbers: dict[str, int] = json.loads(_text("syscall_numbers.json"))[machine]
    program: list[_Instruction] = [
        # The architecture first: the same number is another call on another one, as of 32-bit programs.
        (_LOAD, 0, 0, _ARCHITECTURE_AT),
        (_IF_EQUAL, 1, 0, _ARCHITECTURES[machine]),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, _NUMBER_AT),
    ]
    refusal = (_RETURN, 0, 0, _ERRNO | int(profile["defaultErrnoRet"]))
    if machine == "x86_64":
        program += [(_IF_AT_LEAST, 0, 1, _X32), refusal]
    conditional: dict[int, list[Any]] = {}
    for rule in profile["syscalls"]:
        found = sorted(numbers[name] for name in rule["names"] if name in numbers)
        if rule["action"] == "SCMP_ACT_ERRNO":
            program += _on_ranges(found, _ERRNO | int(rule["errnoRet"]))
        elif rule.get("args"):
            for number in found:
                conditional.setdefault(number, []).append(rule["args"])
    unconditional = {
        numbers[name]
        for rule in profile["syscalls"]
        if rule["action"] == "SCMP_ACT_ALLOW" and not rule.get("args")
        for name in rule["names"]
        if name in numbers
    }
    if own_scheduling_only:
        for name, index in _SUBJECT_AT.items():
            unconditional.discard(numbers[name])
            conditional[numbers[name]] = [[{"index": index, "op": "SCMP_CMP_EQ", "value": 0}]]
    program += _on_ranges(sorted(unconditional), _ALLOW)
    for number, alternatives in sorted(conditional.items()):
        block = [each for arguments in alternatives for each in _on_arguments(arguments)] + [refusal]
        program += [(_IF_EQUAL, 0, len(block), number), *block]
    return b"".join(struct.pack("=HBBI", *each) for each in (*program, refusal))


def _on_ranges(numbers: Iterable[int], verdict: int) -> Iterator[_Instruction]:
    """Yield the instructions that return ``verdict`` for sorted call numbers. No jump leaves its range."""
    ranges: list[list[int]] = []
    for number in numbers:
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    for first, last in ranges:
        if first == last:
            yield (_IF_EQUAL, 0, 1, first)
        else:
            yield (_IF_AT_LEAST, 0, 2, first)
            yield (_IF_ABOVE, 1, 0, last)
        yield (_RETURN, 0, 0, verdict)


def _on_arguments(conditions: Iterable[dict[str, Any]]) -> list[_Instruction]:
    """Return the instructions that allow a call when all conditions hold, and go on behind them otherwise."""
    # An argument has 64 bits and an instruction compares 32: low word, then high word.
    checks: list[list[_Instruction]] = []
    for condition in conditions:
        if condition["op"] == "SCMP_CMP_EQ":
            mask, value = _WORD << 32 | _WORD, int(condition["value"])
        elif condition["op"] == "SCMP_CMP_MASKED_EQ":
            mask, value = int(condition["value"]), int(condition["valueTwo"])
        else:
            raise ValueError(f"seccomp.json: unsupported comparison {condition['op']}")
        for shift in (0, 32):
            if part := mask >> shift & _WORD:
                place = _ARGUMENTS_AT + 8 * int(condition["index"]) + shift // 8
                check = [(_LOAD, 0, 0, place), (_AND, 0, 0, part), (_IF_EQUAL, 0, 0, value >> shift & _WORD)]
                checks.append(check)
    instructions = [each for check in checks for each in check] + [(_RETURN, 0, 0, _ALLOW)]
    end = len(instructions)
    return [
        (code, yes, end - place - 1 if code == _IF_EQUAL else no, operand)
        for place, (code, yes, no, operand) in enumerate(instructions)
    ]


@cache
def _profile() -> dict[str, Any]:
    profile: dict[str, Any] = json.loads(_text("seccomp.json"))
    return profile


def _text(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")
