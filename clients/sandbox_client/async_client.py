"""The asynchronous client: every verb of the service, thousands at a time.

Calls are bounded by slots, not by connections: whatever is over the bound waits in the client and costs
nothing. Creates and forks have slots of their own, because they may wait long for a sandbox, and the episodes
that would free one must be able to step meanwhile. Requests go straight to the transport: httpx's own client
and pool cost more than the service does once calls queue up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import _calls
from ._async_sender import AsyncSender
from ._retry import RetryPolicy
from ._wire import Wire
from .episodes import AsyncEpisode
from .limits import ClientLimits

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping, Sequence
    from types import TracebackType

    import httpx
    from pydantic import JsonValue
    from typing_extensions import Self

    from sandbox_contract.agent_runs import RunAgentResult
    from sandbox_contract.batches import BatchOperation, BatchResult
    from sandbox_contract.episodes import (
        CreateInstanceResult,
        EnvProfile,
        EvaluateResult,
        ForkInstanceResult,
        ReleaseInstanceResult,
        StepResult,
    )
    from sandbox_contract.inspection import (
        Environments,
        FileEntry,
        FileList,
        Instances,
        InstanceStatus,
        InstanceTrajectory,
        Stats,
    )

    from ._messages import Action
    from ._wire import Exchange
    from .tracing import EpisodeTracing

__all__ = ["AsyncSandboxClient"]


class AsyncSandboxClient:
    """One service, seen from one event loop of the process that made it. Use it as a context manager."""

    def __init__(
        self,
        base_url: str,
        api_key: str | None = None,
        *,
        limits: ClientLimits | None = None,
        retry: RetryPolicy | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
        observer: Callable[[Exchange], None] | None = None,
        tracing: EpisodeTracing | None = None,
    ) -> None:
        limits = limits or ClientLimits()
        wire = Wire(base_url, api_key, limits)
        self._sender = AsyncSender(wire, limits, retry or RetryPolicy(), transport, observer, tracing)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Release what cancelled and failed creates have made, within a bound, and close the connections."""
        await self._sender.aclose()

    async def get_env_profile(
        self, environment: str, split: str | None = None, *, offset: int = 0, limit: int | None = None
    ) -> EnvProfile:
        """Return the task ids of a split."""
        return await self._sender.send(_calls.get_env_profile(environment, split, offset, limit))

    async def create_instance(
        self,
        environment: str,
        task_id: str,
        *,
        instance_id: str | None = None,
        seed: int | None = None,
        params: Mapping[str, JsonValue] | None = None,
        fresh: bool = False,
        idempotency_key: str | None = None,
    ) -> CreateInstanceResult:
        """Start an episode of a task."""
        return await self._sender.send(
            _calls.create_instance(environment, task_id, instance_id, seed, params, fresh, idempotency_key)
        )

    async def step(
        self,
        instance_id: str,
        message: Action,
        *,
        step_index: int | None = None,
        timeout_s: float | None = None,
        idempotency_key: str | None = None,
    ) -> StepResult:
        """Send one assistant message, and return observation and reward.

        Raises TypeError for an object that is no message, such as a whole answer of a model.
        """
        request = _calls.step_request(instance_id, message, step_index, timeout_s, idempotency_key)
        return await self._sender.send(_calls.step(request))

    async def evaluate(
        self,
        instance_id: str,
        *,
        params: Mapping[str, JsonValue] | None = None,
        timeout_s: float | None = None,
        idempotency_key: str | None = None,
    ) -> EvaluateResult:
        """Grade the instance as it stands.

        ``timeout_s``: the seconds that its grading may take, ``info["evaluate_s"]`` of the created instance,
        so that the client waits for them.
        """
        return await self._sender.send(_calls.evaluate(instance_id, params, timeout_s, idempotency_key))

    async def release_instance(
        self, instance_id: str, *, idempotency_key: str | None = None, give_up_s: float | None = None
    ) -> ReleaseInstanceResult:
        """End the instance; releasing twice is no error.

        ``give_up_s``: the seconds after which it fails, where the retry policy has more.
        """
        return await self._sender.send(_calls.release_instance(instance_id, idempotency_key, give_up_s))

    async def fork_instance(
        self, instance_id: str, *, count: int = 1, idempotency_key: str | None = None
    ) -> ForkInstanceResult:
        """Copy a live instance."""
        return await self._sender.send(_calls.fork_instance(instance_id, count, idempotency_key))

    async def run_agent(
        self,
        instance_id: str,
        command: Sequence[str],
        *,
        environment: Mapping[str, str] | None = None,
        package: str | None = None,
        model_endpoint: str | None = None,
        timeout_s: float | None = None,
        output_bytes: int | None = None,
        idempotency_key: str | None = None,
    ) -> RunAgentResult:
        """Run a command as an agent in the instance's workspace, until it exits or its time is over."""
        return await self._sender.send(
            _calls.run_agent(
                instance_id,
                command,
                environment,
                package,
                model_endpoint,
                timeout_s,
                output_bytes,
                idempotency_key,
            )
        )

    async def batch(
        self, operations: Sequence[BatchOperation], *, timeout_s: float | None = None
    ) -> BatchResult:
        """Execute many operations in one call; each has its own result or problem.

        ``timeout_s``: the seconds that the longest of them may take, as for ``evaluate``.
        """
        return await self._sender.send(_calls.batch(operations, timeout_s))

    async def environments(self) -> Environments:
        """Return the descriptors of the environments that are served."""
        return await self._sender.send(_calls.environments())

    async def instances(self) -> Instances:
        """Return the tenant's instances, all pages of them."""
        pages = [await self._sender.send(_calls.instances())]
        while (cursor := pages[-1].next_cursor) is not None:
            pages.append(await self._sender.send(_calls.instances(cursor)))
        return _calls.all_instances(pages)

    async def instance(self, instance_id: str) -> InstanceStatus:
        """Return the status of one instance."""
        return await self._sender.send(_calls.instance(instance_id))

    async def trajectory(self, instance_id: str) -> InstanceTrajectory:
        """Return the recorded history of an instance, all pages of it."""
        return _calls.whole_trajectory([page async for page in self.trajectory_pages(instance_id)])

    async def trajectory_pages(self, instance_id: str) -> AsyncIterator[InstanceTrajectory]:
        """Yield the recorded history of an instance by page, for those that do not fit into memory."""
        page = await self._sender.send(_calls.trajectory(instance_id))
        yield page
        while page.next_cursor is not None:
            page = await self._sender.send(_calls.trajectory(instance_id, page.next_cursor))
            yield page

    async def list_files(self, instance_id: str, path: str = "") -> FileList:
        """Return the files of the workspace, or of a folder in it."""
        return await self._sender.send(_calls.list_files(instance_id, path))

    async def read_file(self, instance_id: str, path: str) -> bytes:
        """Return the content of a file of the workspace."""
        return await self._sender.send(_calls.read_file(instance_id, path))

    async def write_file(
        self, instance_id: str, path: str, content: bytes, *, idempotency_key: str | None = None
    ) -> FileEntry:
        """Write a file into the workspace."""
        return await self._sender.send(_calls.write_file(instance_id, path, content, idempotency_key))

    async def stats(self) -> Stats:
        """Return boxes, instances and queues of the fleet."""
        return await self._sender.send(_calls.stats())

    async def healthy(self) -> bool:
        """Return whether the service's front answers; asked once."""
        return await self._sender.is_ok("/healthz")

    async def ready(self) -> bool:
        """Return whether the service takes new instances; asked once."""
        return await self._sender.is_ok("/readyz")

    def episode(
        self,
        environment: str,
        task_id: str,
        *,
        seed: int | None = None,
        params: Mapping[str, JsonValue] | None = None,
        fresh: bool = False,
    ) -> AsyncEpisode:
        """Return an episode as a context manager: created on entry, released on exit."""
        return AsyncEpisode(self, environment, task_id, seed=seed, params=params, fresh=fresh)
