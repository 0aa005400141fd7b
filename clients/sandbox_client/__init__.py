"""Clients of the service: synchronous and asynchronous, one behaviour.

    from sandbox_client import AsyncSandboxClient

    async with AsyncSandboxClient("http://127.0.0.1:8080") as client:
        async with client.episode("code", task_id) as episode:
            result = await episode.step("```python\\nprint(6 * 7)\\n```")

Imports the contract, httpx and aiohttp; neither Ray nor FastAPI.
"""

from sandbox_contract.images import chat_messages

from ._retry import RetryPolicy
from ._wire import Exchange
from .agent import AgentEpisode
from .async_client import AsyncSandboxClient
from .batching import StepBatcher
from .counterparts import CounterpartTurns, ModelCounterpart
from .episodes import AsyncEpisode, Episode
from .errors import (
    AuthenticationError,
    CallTimeout,
    CapacityError,
    ConflictError,
    CounterpartFailed,
    GoneError,
    InstanceLost,
    InvalidResponse,
    NotFoundError,
    PolicyError,
    RequestError,
    SandboxError,
    SandboxFailure,
    StepTimeout,
    TaskError,
    TransportError,
)
from .limits import ClientLimits
from .sync_agent import SyncAgentEpisode
from .sync_client import SandboxClient

__all__ = [
    "AgentEpisode",
    "AsyncEpisode",
    "AsyncSandboxClient",
    "AuthenticationError",
    "CallTimeout",
    "CapacityError",
    "ClientLimits",
    "ConflictError",
    "CounterpartFailed",
    "CounterpartTurns",
    "Episode",
    "Exchange",
    "GoneError",
    "InstanceLost",
    "InvalidResponse",
    "ModelCounterpart",
    "NotFoundError",
    "PolicyError",
    "RequestError",
    "RetryPolicy",
    "SandboxClient",
    "SandboxError",
    "SandboxFailure",
    "StepBatcher",
    "StepTimeout",
    "SyncAgentEpisode",
    "TaskError",
    "TransportError",
    "chat_messages",
]
