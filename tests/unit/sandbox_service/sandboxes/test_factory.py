"""Choosing what boxes are made of."""

import dataclasses
import socket

import pytest

from sandbox_contract.problems import ErrorCode
from sandbox_service.config import SandboxConfig
from sandbox_service.errors import ServiceError, TrialTimeoutError
from sandbox_service.sandboxes import factory, runsc
from sandbox_service.sandboxes.docker import EngineInfo
from sandbox_service.sandboxes.factory import limits_warning, open_factory, version_warnings


def facts(version, runc):
    return EngineInfo(version, runc, frozenset(), rootless=False, remapped_root=None)


async def test_without_an_engine_and_gvisor_auto_takes_processes(tmp_path):
    config = SandboxConfig(
        docker_host=f"unix://{tmp_path}/none.sock", runsc=f"{tmp_path}/none", state_dir=tmp_path / "s"
    )
    opened = await open_factory(config, "n1")
    assert (opened.kind, opened.is_boundary) == ("process", False)
    await opened.close()


async def test_gvisor_that_is_not_installed_is_an_error_and_leaves_the_node_free(tmp_path):
    config = SandboxConfig(kind="gvisor", runsc=f"{tmp_path}/none", gvisor_root=tmp_path, state_dir=tmp_path)
    for _ in range(2):
        with pytest.raises(ServiceError, match="no root folder of gVisor boxes"):
            await open_factory(config, "n1")
    (tmp_path / "opt/sandbox").mkdir(parents=True)
    (tmp_path / "opt/sandbox/python3").symlink_to("/usr/bin/python3")
    for _ in range(2):
        with pytest.raises(ServiceError, match="no gVisor"):
            await open_factory(config, "n1")


VERSION_ONLY = 'case "$*" in *" run "*) exec sleep 600 ;; esac'


@pytest.mark.parametrize(
    ("bound", "script", "why"),
    [("TRIAL_S", VERSION_ONLY, "too busy"), ("ASK_S", "exec sleep 600", "--version did not end")],
    ids=["trial box", "version"],
)
async def test_auto_takes_no_weaker_boxes_because_the_machine_is_busy(
    tmp_path, monkeypatch, bound, script, why
):
    monkeypatch.setattr(runsc, bound, 0.1)
    program = tmp_path / "runsc"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    (tmp_path / "opt/sandbox").mkdir(parents=True)
    (tmp_path / "opt/sandbox/python3").symlink_to("/usr/bin/python3")
    config = SandboxConfig(
        docker_host=f"unix://{tmp_path}/none.sock",
        runsc=str(program),
        gvisor_root=tmp_path,
        state_dir=tmp_path / "s",
    )
    with pytest.raises(TrialTimeoutError, match=why):
        await open_factory(config, "n1")


async def test_docker_without_an_engine_is_an_error(tmp_path):
    config = SandboxConfig(kind="docker", docker_host=f"unix://{tmp_path}/none.sock", state_dir=tmp_path)
    with pytest.raises(ServiceError, match="no Docker engine answers") as caught:
        await open_factory(config, "n1")
    assert caught.value.code is ErrorCode.SANDBOX_FAILED


async def test_an_engine_that_listens_and_is_late_is_not_absent(tmp_path, monkeypatch):
    monkeypatch.setattr(factory, "CONNECT_S", 0.2)
    with socket.socket(socket.AF_UNIX) as engine:
        engine.bind(f"{tmp_path}/docker.sock")
        engine.listen()
        config = SandboxConfig(docker_host=f"unix://{tmp_path}/docker.sock", state_dir=tmp_path)
        with pytest.raises(TrialTimeoutError, match="it may be starting"):
            await open_factory(config, "n1")


@pytest.mark.parametrize(
    ("version", "runc", "words"),
    [
        ("20.10.24+dfsg1", "1.1.5+ds1", ["CVE-2024-21626"]),
        ("28.2.2", "1.2.5", ["CVE-2025-31133"]),
        ("28.2.2", "1.3.1", ["CVE-2025-31133"]),
        ("20.10.7", "1.2.8", ["20.10.10"]),
        ("29.0.0", "1.3.3", []),
        ("29.0.0", "v1.2.9", []),
        ("dev", "", []),
    ],
)
def test_known_faults_of_engines_are_said(version, runc, words):
    warnings = version_warnings(facts(version, runc))
    assert len(warnings) == len(words)
    assert all(word in warning for word, warning in zip(words, warnings, strict=True))


def test_an_engine_that_drops_limits_is_named_with_what_they_are():
    rootless = dataclasses.replace(facts("29.0.0", "1.3.3"), unbounded=("memory", "processes"))
    assert "does not bound the memory, processes of boxes" in limits_warning(rootless)


async def test_a_box_serves_many_instances_where_it_is_no_boundary_anyway(tmp_path):
    from sandbox_service.environments.echo.service.catalog import EchoCatalog

    config = SandboxConfig(kind="process", state_dir=tmp_path / "s", process_instances_per_box=7)
    factory = await open_factory(config, "n1")
    with_agents = dataclasses.replace(EchoCatalog.spec, agent_code=True, instances_per_box=1)
    assert factory.capacity(with_agents) == 7
    assert factory.capacity(EchoCatalog.spec) == 10_000
    await factory.close()
