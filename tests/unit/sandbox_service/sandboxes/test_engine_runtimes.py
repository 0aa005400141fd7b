"""The runtime of an engine with which boxes are started."""

from dataclasses import replace

import pytest

from sandbox_service.config import SandboxConfig
from sandbox_service.errors import ServiceError
from sandbox_service.sandboxes.docker import EngineInfo
from sandbox_service.sandboxes.engine_runtimes import (
    check_runtime,
    chosen_runtime,
    gvisor_runtimes,
    kata_runtimes,
    runs_in_gvisor,
)

RUNTIMES = {
    "runc": {"path": "runc"},
    "runsc": {"path": "/usr/local/bin/runsc"},
    "boxes": {"path": "/usr/local/bin/runsc", "runtimeArgs": ["--host-uds=create", "--platform=kvm"]},
    "io.containerd.runsc.v1": {"status": {}},
}
FACTS = EngineInfo(
    "28.0.0",
    "1.3.3",
    frozenset(RUNTIMES),
    rootless=False,
    remapped_root=None,
    default_runtime="runc",
    gvisor=gvisor_runtimes(RUNTIMES),
)


def test_gvisor_is_known_by_its_program_and_ready_with_the_flag_that_boxes_need():
    assert FACTS.gvisor == {"runsc": False, "boxes": True, "io.containerd.runsc.v1": None}


def test_auto_takes_gvisor_where_it_is_ready():
    assert chosen_runtime(SandboxConfig(), FACTS) == "boxes"
    assert chosen_runtime(SandboxConfig(), replace(FACTS, gvisor={"runsc": False})) is None


def test_docker_that_is_configured_has_the_runtime_that_is_configured():
    assert chosen_runtime(SandboxConfig(kind="docker"), FACTS) is None
    assert chosen_runtime(SandboxConfig(docker_runtime="runc"), FACTS) == "runc"
    with pytest.raises(ServiceError, match="unknown Docker runtime 'crun'"):
        chosen_runtime(SandboxConfig(docker_runtime="crun"), FACTS)


def test_gvisor_without_the_flag_is_an_error_that_says_how_to_register_it():
    for config, facts in (
        (SandboxConfig(docker_runtime="runsc"), FACTS),
        (SandboxConfig(), replace(FACTS, default_runtime="runsc")),
    ):
        with pytest.raises(ServiceError, match="runsc install -- --host-uds=create --network=none"):
            chosen_runtime(config, facts)


@pytest.mark.parametrize(
    "runtime",
    [
        {"path": "/opt/kata/bin/kata-runtime"},
        {"path": "/usr/local/bin/containerd-shim-kata-v2"},
        {"runtimeType": "io.containerd.kata.v2"},
    ],
)
def test_kata_is_refused_since_the_sockets_of_its_boxes_cannot_be_reached(runtime):
    listed = {**RUNTIMES, "machines": runtime}
    facts = replace(FACTS, runtimes=frozenset(listed), kata=kata_runtimes(listed))
    assert chosen_runtime(SandboxConfig(kind="docker"), facts) is None
    for config, used in (
        (SandboxConfig(docker_runtime="machines"), facts),
        (SandboxConfig(kind="docker"), replace(facts, default_runtime="machines")),
    ):
        with pytest.raises(ServiceError, match=r"machines is Kata.*; set sandbox.docker_runtime"):
            chosen_runtime(config, used)


def test_auto_takes_gvisor_beside_a_default_of_kata_and_refuses_the_default_alone():
    facts = replace(FACTS, default_runtime="machines", kata=frozenset({"machines"}))
    assert chosen_runtime(SandboxConfig(), facts) == "boxes"
    with pytest.raises(ServiceError, match="machines is Kata"):
        chosen_runtime(SandboxConfig(), replace(facts, gvisor={}))
    with pytest.raises(ServiceError, match="machines is Kata"):
        check_runtime(None, facts)


def test_another_program_in_a_folder_of_kata_is_not_kata():
    assert kata_runtimes({"runc": {"path": "/opt/kata/bin/runc"}}) == frozenset()


def test_an_engine_whose_default_is_gvisor_is_left_at_it():
    facts = replace(FACTS, default_runtime="io.containerd.runsc.v1")
    assert chosen_runtime(SandboxConfig(), facts) is None
    assert runs_in_gvisor(None, facts)
    assert not runs_in_gvisor("runc", facts)
