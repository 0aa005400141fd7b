"""The service's configuration: one frozen, closed tree, read once by the composition root.

Each part of the service receives its own branch only. Defaults are the vetted settings; a TOML file and
``key=value`` words override them (``server.port=9000``).
"""

from .environments import (
    AlfworldConfig,
    AppworldConfig,
    BabyaiConfig,
    BfclConfig,
    CodeConfig,
    EnvironmentsConfig,
    ScienceworldConfig,
    TextcraftConfig,
    TextworldConfig,
    WebshopConfig,
)
from .service import (
    DeadlineConfig,
    Durability,
    FleetConfig,
    LeaseConfig,
    LimitsConfig,
    PoolConfig,
    QuotaConfig,
    SandboxConfig,
    ServerConfig,
    ServiceConfig,
    StoreConfig,
)

__all__ = [
    "AlfworldConfig",
    "AppworldConfig",
    "BabyaiConfig",
    "BfclConfig",
    "CodeConfig",
    "DeadlineConfig",
    "Durability",
    "EnvironmentsConfig",
    "FleetConfig",
    "LeaseConfig",
    "LimitsConfig",
    "PoolConfig",
    "QuotaConfig",
    "SandboxConfig",
    "ScienceworldConfig",
    "ServerConfig",
    "ServiceConfig",
    "StoreConfig",
    "TextcraftConfig",
    "TextworldConfig",
    "WebshopConfig",
]
