"""The synchronous client: the same verbs by the same names, safe to share between threads.

Calls in flight are bounded as in the asynchronous client: creates and forks have slots of their own. For
thousands of episodes at once take the asynchronous client; a thread an episode costs more than the service.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import _calls
from ._retry import RetryPolicy
from ._sync_sender import Sender
from ._wire import Wire
from .episodes import Episode
from .limits import ClientLimits

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from types import TracebackType

    import httpx
    from pydantic import JsonValue
    from typing_extensions import Self

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
        Stats,
        Trajectory,
    )

    from ._calls import Action
    from ._wire import Exchange

__all__ = ["SandboxClient"]


class SandboxClient:
    """One service, seen from any number of threads. Use it as a context manager."""

    def __init__(
        self,
        base_url: str,
        api_key: str | None = None,
        *,
        limits: ClientLimits | None = None,
        retry: RetryPolicy | None = None,
        transport: httpx.BaseTransport | None = None,
        observer: Callable[[Exchange], None] | None = None,
    ) -> None:
        limits = limits or ClientLimits()
        wire = Wire(base_url, api_key, limits)
        self._sender = Sender(wire, limits, retry or RetryPolicy(), transport, observer)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._sender.close()

    def get_env_profile(
        self, environment: str, split: str | None = None, *, offset: int = 0, limit: int | None = None
    ) -> EnvProfile:
        """The task ids of a split."""
        return self._sender.send(_calls.get_env_profile(environment, split, offset, limit))

    def create_instance(
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
        return self._sender.send(
            _calls.create_instance(environment, task_id, instance_id, seed, params, fresh, idempotency_key)
        )

    def step(
        self,
        instance_id: str,
        message: Action,
        *,
        step_index: int | None = None,
        timeout_s: float | None = None,
        idempotency_key: str | None = None,
    ) -> StepResult:
        """One assistant message in, observation and reward out."""
        request = _calls.step_request(instance_id, message, step_index, timeout_s, idempotency_key)
        return self._sender.send(_calls.step(request))

    def evaluate(
        self,
        instance_id: str,
        *,
        params: Mapping[str, JsonValue] | None = None,
        idempotency_key: str | None = None,
    ) -> EvaluateResult:
        """Grade the instance as it stands."""
        return self._sender.send(_calls.evaluate(instance_id, params, idempotency_key))

    def release_instance(
        self, instance_id: str, *, idempotency_key: str | None = None
    ) -> ReleaseInstanceResult:
        """End the instance; releasing twice is no error."""
        return self._sender.send(_calls.release_instance(instance_id, idempotency_key))

    def fork_instance(
        self, instance_id: str, *, count: int = 1, idempotency_key: str | None = None
    ) -> ForkInstanceResult:
        """Copy a live instance."""
        return self._sender.send(_calls.fork_instance(instance_id, count, idempotency_key))

    def batch(self, operations: Sequence[BatchOperation]) -> BatchResult:
        """Many operations in one call; each has its own result or problem."""
        return self._sender.send(_calls.batch(operations))

    def environments(self) -> Environments:
        """Descriptors of what is served."""
        return self._sender.send(_calls.environments())

    def instances(self) -> Instances:
        """The tenant's instances, all pages of them."""
        pages = [self._sender.send(_calls.instances())]
        while (cursor := pages[-1].next_cursor) is not None:
            pages.append(self._sender.send(_calls.instances(cursor)))
        return _calls.all_instances(pages)

    def instance(self, instance_id: str) -> InstanceStatus:
        """One instance."""
        return self._sender.send(_calls.instance(instance_id))

    def trajectory(self, instance_id: str) -> Trajectory:
        """The recorded history of an instance, all pages of it."""
        return _calls.whole_trajectory(list(self.trajectory_pages(instance_id)))

    def trajectory_pages(self, instance_id: str) -> Iterator[Trajectory]:
        """The recorded history of an instance a page at a time, for those that do not fit into memory."""
        page = self._sender.send(_calls.trajectory(instance_id))
        yield page
        while page.next_cursor is not None:
            page = self._sender.send(_calls.trajectory(instance_id, page.next_cursor))
            yield page

    def list_files(self, instance_id: str, path: str = "") -> FileList:
        """Files of the workspace, or of a folder in it."""
        return self._sender.send(_calls.list_files(instance_id, path))

    def read_file(self, instance_id: str, path: str) -> bytes:
        """A file of the workspace."""
        return self._sender.send(_calls.read_file(instance_id, path))

    def write_file(
        self, instance_id: str, path: str, content: bytes, *, idempotency_key: str | None = None
    ) -> FileEntry:
        """Write a file into the workspace."""
        return self._sender.send(_calls.write_file(instance_id, path, content, idempotency_key))

    def stats(self) -> Stats:
        """Boxes, instances and queues of the fleet."""
        return self._sender.send(_calls.stats())

    def healthy(self) -> bool:
        """Whether the service's front answers; asked once."""
        return self._sender.probe("/healthz")

    def ready(self) -> bool:
        """Whether the service takes new instances; asked once."""
        return self._sender.probe("/readyz")

    def episode(
        self,
        environment: str,
        task_id: str,
        *,
        seed: int | None = None,
        params: Mapping[str, JsonValue] | None = None,
        fresh: bool = False,
    ) -> Episode:
        """An episode as a context manager: created on entry, released on exit."""
        return Episode(self, environment, task_id, seed=seed, params=params, fresh=fresh)
