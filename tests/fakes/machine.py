"""A machine whose facts a test sets; as it is made, nothing is wrong with it."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from sandbox_contract.problems import ErrorCode
from sandbox_service.config import ServiceConfig
from sandbox_service.errors import ServiceError
from sandbox_service.pool.policy import NodeSize
from sandbox_service.sandboxes.docker import EngineInfo
from sandbox_service.trajectories.condition import StoreCondition, StoreState
from service_cli.doctor.machine import (
    ClockFacts,
    DiskFacts,
    EnvironmentFacts,
    KernelFacts,
    LimitFacts,
    UserFacts,
)

ENGINE = EngineInfo(
    version="28.0.0",
    runc="1.3.3",
    runtimes=frozenset({"runc", "runsc"}),
    rootless=True,
    remapped_root=None,
    default_runtime="runc",
    storage_driver="overlay2",
    cgroup_version="2",
    gvisor={"runsc": True},
)
KERNEL = KernelFacts("6.12.1", "x86_64", 6, 2, frozenset({"cpu", "memory", "pids"}), 10_000, True)
USER = UserFacts(1000, "service", mapped=True, ids_free=True, environments_group="", cache=Path("/cache"))
LIMITS = LimitFacts(524_288, None, 4_194_304, 100_000, None)
SIZES = dict.fromkeys(("docker", "gvisor", "process"), NodeSize(cores=8, memory_mib=32_768))
DISK = DiskFacts(100_000, 1_000_000, Path("/"), writable=True)
CLOCK = ClockFacts("tsc", True, 0.1, 0.0)
CONDITION = StoreCondition(StoreState.CURRENT, "postgresql", "postgresql://db/t", 0.01)
ENVIRONMENTS = EnvironmentFacts(frozenset({"code", "appworld"}), frozenset(), {}, {})


def unavailable(reason: str) -> ServiceError:
    """Return the answer of a machine that does not have something."""
    return ServiceError(ErrorCode.SANDBOX_FAILED, reason)


@dataclass
class FakeMachine:
    """Answers with its fields; an answer that is an error is raised."""

    engine_facts: EngineInfo | ServiceError = ENGINE
    images: list[str] = field(default_factory=list)
    runsc: str | ServiceError = "/usr/bin/runsc"
    confinement: Mapping[str, bool] = field(default_factory=lambda: {"own user ids": True})
    kernel_facts: KernelFacts = KERNEL
    user_facts: UserFacts = USER
    limit_facts: LimitFacts = LIMITS
    sizes: Mapping[str, NodeSize] = field(default_factory=lambda: SIZES)
    disks: Mapping[Path, DiskFacts] = field(default_factory=dict)
    closed: frozenset[Path] = frozenset()
    clock_facts: ClockFacts = CLOCK
    environment_facts: EnvironmentFacts | ServiceError = ENVIRONMENTS
    condition: StoreCondition = CONDITION
    refusals: Mapping[str, str | None] = field(default_factory=lambda: {"fleet": None, "tls": None})
    listening: str | None = None
    connecting: str | None = None
    answering: bool = False
    ephemeral: range = range(32_768, 61_000)
    packages: Mapping[str, str] = field(default_factory=lambda: {"ray": "2.60.0"})
    missing_libraries: tuple[str, ...] = ()
    pins: Mapping[str, str] = field(default_factory=lambda: {"ray": "2.60.0"})
    haproxy_path: str | None = "/usr/sbin/haproxy"
    gpu_names: list[str] | ServiceError = field(default_factory=list)
    shared: int = 1_024

    def read_engine(self, config: ServiceConfig) -> EngineInfo:
        return given(self.engine_facts)

    def find_missing_images(self, config: ServiceConfig) -> list[str]:
        return self.images

    def try_gvisor(self, config: ServiceConfig) -> str:
        return given(self.runsc)

    def try_protections(self, config: ServiceConfig) -> Mapping[str, bool]:
        return self.confinement

    def read_kernel(self) -> KernelFacts:
        return self.kernel_facts

    def read_user(self) -> UserFacts:
        return self.user_facts

    def read_limits(self) -> LimitFacts:
        return self.limit_facts

    def read_size(self, kind: str) -> NodeSize:
        return self.sizes[kind]

    def read_disk(self, path: Path) -> DiskFacts:
        return self.disks.get(path, DISK)

    def can_list(self, path: Path) -> bool:
        return path not in self.closed

    def read_clock(self) -> ClockFacts:
        return self.clock_facts

    def find_environments(self, config: ServiceConfig) -> EnvironmentFacts:
        return given(self.environment_facts)

    def read_store(self, url: str) -> StoreCondition:
        return self.condition

    def try_settings(self, config: ServiceConfig) -> Mapping[str, str | None]:
        return self.refusals

    def try_listening(self, config: ServiceConfig) -> str | None:
        return self.listening

    def try_connecting(self, address: str) -> str | None:
        return self.connecting

    def find_service(self, url: str) -> bool:
        return self.answering

    def read_ephemeral_ports(self) -> range:
        return self.ephemeral

    def read_version(self, name: str) -> str | None:
        return self.packages.get(name)

    def has_library(self, name: str) -> bool:
        return name not in self.missing_libraries

    def read_pins(self, extra: str) -> Mapping[str, str]:
        return self.pins

    def find_haproxy(self) -> str | None:
        return self.haproxy_path

    def find_gpus(self) -> list[str]:
        return given(self.gpu_names)

    def read_shared_memory_mib(self) -> int:
        return self.shared


def given(answer):
    """Return an answer, or raise it if it is an error."""
    if isinstance(answer, ServiceError):
        raise answer
    return answer


def without_boxes() -> FakeMachine:
    """Return a machine with neither engine nor gVisor."""
    nothing = {"engine_facts": unavailable("no Docker engine answers"), "runsc": unavailable("no gVisor")}
    return replace(FakeMachine(), **nothing)
