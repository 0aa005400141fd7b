"""The native ``POST /v1`` routes: the five verbs, fork and batch, without a framework in between."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sandbox_contract.batches import BatchRequest
from sandbox_contract.episodes import EnvProfile, GetEnvProfileRequest
from sandbox_contract.problems import ErrorCode
from sandbox_service.errors import ServiceError

from .answers import JSON, Answer, problem_answer, server_timing, timing_of
from .operations import BATCH, PROFILE, VERBS, Operation
from .refusals import SchemaError
from .verbs import Call, call_of, header_key

if TYPE_CHECKING:
    from sandbox_service.environments.registry import Registry

    from .bodies import BodyParser
    from .exchange import Exchange
    from .metrics import Metrics
    from .request_log import RequestLog
    from .turns import Turns
    from .verbs import Verbs


@dataclass(frozen=True, slots=True)
class HotRoute:
    """A route that is served without a framework: body bytes in, answer out."""

    path: str
    handle: Callable[[Exchange, bytes], Awaitable[Answer]]
    refuse: Callable[[Exchange, ServiceError], Answer]
    """How this route tells an error."""
    method: str = "POST"


@dataclass(frozen=True, slots=True)
class _Planned:
    """One operation of a batch."""

    name: str
    instance_id: str | None
    call: Call | ServiceError


def _planned(batch: BatchRequest) -> list[_Planned]:
    """The operations of a batch as calls, each that cannot be one with its own error."""
    planned = []
    for operation in batch.operations:
        request = operation.request
        call: Call | ServiceError
        try:
            call = call_of(request)
        except ServiceError as error:
            call = error
        instance_id = getattr(request, "instance_id", None)
        planned.append(_Planned(VERBS[type(request)].name, instance_id, call))
    return planned


class NativeRoutes:
    """Handlers of the native operations."""

    def __init__(
        self,
        verbs: Verbs,
        registry: Registry,
        metrics: Metrics,
        log: RequestLog,
        parser: BodyParser,
        turns: Turns | None = None,
    ) -> None:
        self._verbs = verbs
        self._registry = registry
        self._metrics = metrics
        self._log = log
        self._parser = parser
        self._turns = turns

    def routes(self) -> Iterable[HotRoute]:
        """Every operation of the table."""
        yield HotRoute(PROFILE.path, self.profile, problem_answer)
        yield HotRoute(BATCH.path, self.batch, problem_answer)
        for verb in VERBS.values():
            yield HotRoute(verb.path, self._handler(verb), problem_answer)

    def _handler(self, verb: Operation) -> Callable[[Exchange, bytes], Awaitable[Answer]]:
        model = verb.request

        async def handle(exchange: Exchange, body: bytes) -> Answer:
            call = await self._parser.read(model, body, call_of)
            exchange.instance_id = call.instance_id or None
            reply = await self._verbs.send(exchange, call, header_key(exchange))
            return Answer(200, reply.body, JSON, server_timing(timing_of(reply.meta)))

        return handle

    async def profile(self, exchange: Exchange, body: bytes) -> Answer:
        """``get_env_profile``: the catalogs are here, so no supervisor is asked."""
        request = await self._parser.parse(GetEnvProfileRequest, body)
        return Answer(200, env_profile(self._registry, request).model_dump_json().encode())

    async def batch(self, exchange: Exchange, body: bytes) -> Answer:
        """Run operations concurrently; one that fails is a problem in its place and harms no other."""
        if b"idempotency-key" in exchange.headers:
            raise SchemaError.at("Idempotency-Key", "means nothing for a batch: operations have their own")
        planned = await self._parser.read(BatchRequest, body, _planned)
        if self._turns is not None and exchange.turn is not None:
            # Each operation waits for a turn of its own.
            self._turns.end(exchange.turn)
        results = await asyncio.gather(*[self._one(exchange, each) for each in planned])
        return Answer(200, b'{"results":[%s]}' % b",".join(results))

    async def _one(self, exchange: Exchange, planned: _Planned) -> bytes:
        """An operation's place in the batch's answer; the result's own bytes are embedded as they are."""
        turn = None
        if isinstance(planned.call, ServiceError):
            return self._failed(exchange, planned, planned.call)
        try:
            if self._turns is not None:
                turn = await self._turns.take(exchange.tenant)
            reply = await self._verbs.send(exchange, planned.call)
        except ServiceError as error:
            return self._failed(exchange, planned, error)
        except Exception as error:  # noqa: BLE001 - capture point: a defect in one operation is its own problem
            self._log.defect(exchange, error)
            return self._failed(exchange, planned, ServiceError(ErrorCode.INTERNAL))
        finally:
            if self._turns is not None and turn is not None:
                self._turns.end(turn)
        self._metrics.operation_done(planned.name, None)
        timing = ",".join(f'"{phase}":{ms:.3f}' for phase, ms in timing_of(reply.meta).items())
        return b'{"status":200,"body":%s,"timing":{%s}}' % (reply.body, timing.encode())

    def _failed(self, exchange: Exchange, planned: _Planned, error: ServiceError) -> bytes:
        self._metrics.operation_done(planned.name, error.code)
        problem = error.problem(exchange.request_id, planned.instance_id)
        body = problem.model_dump_json(exclude_none=True).encode()
        return b'{"status":%d,"body":%s,"timing":{}}' % (problem.status, body)


def env_profile(registry: Registry, request: GetEnvProfileRequest) -> EnvProfile:
    """The tasks of a split. Raises ServiceError(UNKNOWN_ENVIRONMENT or UNKNOWN_SPLIT)."""
    catalog = registry.catalog(request.environment)
    split = request.split if request.split is not None else catalog.describe().default_split
    ids = catalog.task_ids(split)
    end = None if request.limit is None else request.offset + request.limit
    chosen = tuple(ids[request.offset : end])
    return EnvProfile(environment=request.environment, split=split, task_ids=chosen, total=len(ids))
