"""The service's configuration: one frozen, closed tree, read once by the composition root.

Each part of the service receives only its own branch. A TOML file and ``key=value`` overrides
(``server.port=9000``) replace the defaults.
"""

from .agents import AgentsConfig
from .environments import (
    AlfworldConfig,
    AppworldConfig,
    BabyaiConfig,
    BfclConfig,
    BikeRentalConfig,
    CodeConfig,
    EnvironmentsConfig,
    HarborConfig,
    OpenspielConfig,
    ReasoningGymConfig,
    ScienceworldConfig,
    SearchQaConfig,
    SweMutantsConfig,
    TaskFolderConfig,
    TextcraftConfig,
    TextToSqlConfig,
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
    "AgentsConfig",
    "AlfworldConfig",
    "AppworldConfig",
    "BabyaiConfig",
    "BfclConfig",
    "BikeRentalConfig",
    "CodeConfig",
    "DeadlineConfig",
    "Durability",
    "EnvironmentsConfig",
    "FleetConfig",
    "HarborConfig",
    "LeaseConfig",
    "LimitsConfig",
    "OpenspielConfig",
    "PoolConfig",
    "QuotaConfig",
    "ReasoningGymConfig",
    "SandboxConfig",
    "ScienceworldConfig",
    "SearchQaConfig",
    "ServerConfig",
    "ServiceConfig",
    "StoreConfig",
    "SweMutantsConfig",
    "TaskFolderConfig",
    "TextToSqlConfig",
    "TextcraftConfig",
    "TextworldConfig",
    "WebshopConfig",
]
