"""Settings of the service itself, and the tree of all."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from sandbox_settings import Branch, Count, Positive, Seconds

from .environments import EnvironmentsConfig


class ServerConfig(Branch):
    """The HTTP front."""

    host: str = "127.0.0.1"
    """Address to listen on; anything but loopback requires API keys or ``insecure``."""
    port: Annotated[int, Field(ge=1, le=65535)] = 8080
    """Port to listen on."""
    replicas: Positive = 1
    """Gateway replicas."""
    haproxy: bool = True
    """Use Ray Serve's HAProxy ingress and throughput mode where the binary is there."""
    api_keys: dict[str, str] = {}
    """SHA-256 of an API key (hex) to the tenant it belongs to."""
    insecure: bool = False
    """Serve other addresses than loopback without API keys."""
    host_names: tuple[str, ...] = ()
    """Names besides loopback's by which a service without API keys may be called."""
    max_body_bytes: Positive = 8 * 1024 * 1024
    """Largest request body."""
    bodies_mib: Positive = 256
    """Most MiB of request bodies that a replica receives and works on at once; more is answered 429."""
    body_timeout_s: Seconds = 60.0
    """Longest time from the first bytes of a request body to its last."""
    max_json_depth: Positive = 64
    """Deepest nesting of a request body."""
    max_json_values: Positive = 20_000
    """Most JSON values in a request body, which bounds the time that parsing one takes."""


class LimitsConfig(Branch):
    """Bounds of one box."""

    memory_mib: Positive = 512
    """Memory and swap of the whole box."""
    cpus: Annotated[float, Field(gt=0)] = 1.0
    """CPU cores."""
    pids: Positive = 128
    """Processes and threads."""
    open_files: Positive = 1024
    """File descriptors a process."""
    workspace_mib: Positive = 64
    """Size of each writable tmpfs."""
    workspace_inodes: Positive = 8192
    """Files and directories in each writable tmpfs."""


class SandboxConfig(Branch):
    """What boxes are made of."""

    kind: Literal["auto", "docker", "process"] = "auto"
    """``auto`` takes docker where an engine answers, process otherwise."""
    docker_runtime: str | None = None
    """Container runtime: runc, runsc, kata; the engine's default when missing."""
    docker_host: str | None = None
    """Address of the engine; the environment's or the default socket when missing."""
    image_prefix: str = ""
    """Registry and path in front of image names."""
    state_dir: Path | None = None
    """Private folder for sockets and process boxes; a temporary one when missing."""
    process_instances_per_box: Positive = 32
    """Instances with agent code that share one process box, which is no boundary anyway."""
    limits: LimitsConfig = LimitsConfig()
    """Bounds of one box."""


class PoolConfig(Branch):
    """Boxes of one environment on one node."""

    min_boxes: Count = 1
    """Boxes kept warm."""
    max_boxes: Positive | None = None
    """Most boxes at once; when missing, 16 a core, with at most half of the node's memory at 64 MiB a box."""
    max_starting: Positive | None = None
    """Most boxes that start at once; when missing, as many as the node has cores, at least 2."""
    max_creating: Positive | None = None
    """Most instances that are set up at once, while others wait; when missing, as the environment says."""
    max_uses: Positive = 256
    """Instances after which a box with agent code is destroyed."""
    queue_limit: Count = 4096
    """Creates of one tenant that may wait; one more is answered 429."""
    queue_timeout_s: Seconds = 60.0
    """Longest wait for a box."""
    max_instances_per_tenant: Positive | None = None
    """Most live instances of one tenant on one node."""


class QuotaConfig(Branch):
    """What one tenant may have of one node; applied where ``server.api_keys`` names several tenants."""

    box_share: Annotated[float, Field(gt=0, le=1)] = 0.75
    """Share of an environment's boxes that one tenant may use at once; at least one box is left to others."""
    max_instances: Positive = 4096
    """Most live instances of all environments."""
    stored_mib_per_day: Positive = 65_536
    """Most bytes of requests and results that are recorded within 24 hours; past it, no new instance."""
    requests_at_once: Annotated[int, Field(ge=2)] = 8
    """Requests that a gateway replica works on at once; the others wait, and tenants take turns."""
    bodies_mib: Positive = 64
    """Most MiB of one tenant's request bodies that a replica receives and works on at once."""
    requests_waiting: Positive = 1024
    """Requests of one tenant that may wait for their turn in a replica; one more is answered 429."""


class LeaseConfig(Branch):
    """How long an unused instance lives."""

    idle_timeout_s: Seconds = 300.0
    """An instance that nobody has used for so long is released."""
    sweep_interval_s: Seconds = 1.0
    """How often leases are looked at."""
    tombstone_s: Seconds = 900.0
    """How long the end of an instance is remembered, so that late calls get 410 and not 404."""


class DeadlineConfig(Branch):
    """The longest each operation may take; every wait has one."""

    start_s: Seconds = 60.0
    """Starting a box."""
    create_s: Seconds = 30.0
    """Setting up an instance in a box."""
    step_s: Seconds = 60.0
    """A step, unless the request asks for less."""
    evaluate_s: Seconds = 120.0
    """Grading."""
    release_s: Seconds = 10.0
    """Ending an instance; a box that takes longer gets no more, and ends with its last one."""
    drain_s: Seconds = 20.0
    """Finishing what runs at shutdown."""


class Durability(StrEnum):
    """What an answer promises of its record."""

    ACKNOWLEDGED = "acknowledged"
    """It is committed before the answer leaves."""
    FAST = "fast"
    """It is queued, and committed within ``batch_interval_s``."""


class StoreConfig(Branch):
    """Where trajectories are kept."""

    url: str = "sqlite:///var/trajectories.sqlite"
    """SQLAlchemy URL; ``postgresql+psycopg://...`` survives the loss of a node."""
    durability: Durability = Durability.ACKNOWLEDGED
    """``acknowledged``: answers wait for the commit of their records; ``fast``: they do not."""
    fsync: bool = False
    """SQLite: commits reach the disk, so that they survive a power failure and not only a killed process."""
    batch_size: Positive = 256
    """Most records a transaction."""
    batch_interval_s: Seconds = 0.05
    """Longest time that a record waits for its transaction where no answer waits for it."""
    max_failing_s: Seconds = 10.0
    """How long the database may fail before operations fail with storage_full; writing is tried on and on."""
    answers_mib: Positive = 64
    """Answers to keyed calls that a supervisor holds in memory; older ones are read from the store."""
    max_pending: Positive = 100_000
    """Records that may wait; past it operations fail with storage_full instead of losing history."""


class FleetConfig(Branch):
    """The Ray cluster and the supervisors on it."""

    address: str | None = None
    """A running Ray cluster to join, such as ``10.0.0.1:6379``; one of our own is started when missing."""
    name: Annotated[str, Field(pattern=r"^[a-z0-9-]{1,40}$")] | None = None
    """Name of the fleet, which keeps services on one cluster apart; made of the port when missing."""
    tls_certificate: Path | None = None
    """PEM certificate of the streams between nodes, at this path on every node; no TLS when missing."""
    tls_key: Path | None = None
    """Its private key."""
    tls_authority: Path | None = None
    """The authority that signed the certificates of all nodes."""
    dashboard: bool = False
    """Start Ray's dashboard on loopback, in a cluster of our own."""
    object_store_mib: Annotated[int, Field(ge=76)] = 100
    """Ray's object store in a cluster of our own; the service hardly uses it."""
    start_timeout_s: Seconds = 120.0
    """Longest time from the start to the first request that is served."""


class ServiceConfig(Branch):
    """Everything."""

    server: ServerConfig = ServerConfig()
    """The HTTP front."""
    sandbox: SandboxConfig = SandboxConfig()
    """What boxes are made of."""
    pool: PoolConfig = PoolConfig()
    """Boxes of each environment on each node."""
    pools: dict[str, PoolConfig] = {}
    """Pool settings of single environments, in place of ``pool``."""
    quota: QuotaConfig = QuotaConfig()
    """What one tenant may have, where there are several."""
    lease: LeaseConfig = LeaseConfig()
    """How long an unused instance lives."""
    deadline: DeadlineConfig = DeadlineConfig()
    """The longest each operation may take."""
    store: StoreConfig = StoreConfig()
    """Where trajectories are kept."""
    environments: EnvironmentsConfig = EnvironmentsConfig()
    """Settings of each environment."""
    fleet: FleetConfig = FleetConfig()
    """The Ray cluster and the supervisors on it."""

    @property
    def tenants(self) -> int:
        """How many tenants there are; one where no keys are configured."""
        return max(1, len(set(self.server.api_keys.values())))

    def pool_of(self, environment: str) -> PoolConfig:
        """The pool settings of one environment."""
        return self.pools.get(environment, self.pool)
