"""Routes by which the owner of agents opens, reads, rewards and ends their sessions.

They take the admin key and no session's: an agent can neither read its recording nor reward itself.
"""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from aiohttp import web
from pydantic import BaseModel, ValidationError

from trainer.model_gateway.calls import CallError

from .documents import Document, SessionState, as_json
from .requests import OpenRequest, RewardRequest

if TYPE_CHECKING:
    from trainer.model_gateway.session import Session

    from .registry import SessionRegistry

Handler: TypeAlias = Callable[[web.Request], Awaitable[web.StreamResponse]]
RequestT = TypeVar("RequestT", bound=BaseModel)

_CREATED = 201


class ControlRoutes:
    """The control routes of a registry."""

    def __init__(
        self, registry: SessionRegistry, admin_key: str, model: str, public_url: str | None = None
    ) -> None:
        """
        Args:
            registry: the sessions.
            admin_key: the secret of whoever owns the agents, sent as bearer token.
            model: the name by which agents call the model.
            public_url: the gateway's address as agents see it; by default, the one that the owner used.
        """
        self._registry = registry
        self._admin_key = admin_key.encode()
        self._model = model
        self._public_url = public_url

    def list_routes(self) -> Sequence[web.RouteDef]:
        """Return the routes for ``ModelGateway``."""
        return (
            web.post("/sessions", self._admitted(self._open)),
            web.get("/sessions", self._admitted(self._list)),
            web.get("/sessions/{id}", self._admitted(self._read)),
            web.get("/sessions/{id}/sequences", self._admitted(self._sequences)),
            web.post("/sessions/{id}/reward", self._admitted(self._reward)),
            web.delete("/sessions/{id}", self._admitted(self._end)),
        )

    def _admitted(self, handler: Handler) -> Handler:
        async def admitted(request: web.Request) -> web.StreamResponse:
            scheme, _, key = request.headers.get("Authorization", "").partition(" ")
            given = key.strip().encode("utf-8", "surrogateescape")
            if scheme.lower() != "bearer" or not hmac.compare_digest(given, self._admin_key):
                raise CallError(401, "invalid_admin_key", "control routes need the admin key as bearer token")
            return await handler(request)

        return admitted

    async def _open(self, request: web.Request) -> web.Response:
        session = self._registry.open(await _parsed(OpenRequest, request))
        url = self._public_url or str(request.url.origin())
        return _json(as_json(self._opened(session, url.rstrip("/"))), _CREATED)

    def _opened(self, session: Session, url: str) -> Document:
        return {
            "id": session.id,
            "api_key": session.api_key,
            "base_url": f"{url}/v1",
            "anthropic_base_url": url,
            "keyed_base_url": f"{url}/s/{session.api_key}/v1",
            "model": self._model,
        }

    async def _list(self, _: web.Request) -> web.Response:
        return _json(as_json({"sessions": self._registry.summaries()}))

    async def _read(self, request: web.Request) -> web.Response:
        return _json(as_json(self._registry.overview(request.match_info["id"])))

    async def _sequences(self, request: web.Request) -> web.Response:
        return _json(self._registry.sequences(request.match_info["id"]))

    async def _reward(self, request: web.Request) -> web.Response:
        self._registry.add_reward(request.match_info["id"], await _parsed(RewardRequest, request))
        return _json(b"{}")

    async def _end(self, request: web.Request) -> web.Response:
        return _json(await self._registry.end_session(request.match_info["id"], SessionState.SEALED))


async def _parsed(kind: type[RequestT], request: web.Request) -> RequestT:
    """Return the body, which may be empty. Raises CallError(400) with the field at fault."""
    try:
        return kind.model_validate_json(await request.read() or b"{}")
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = ".".join(str(part) for part in first["loc"])
        raise CallError(
            400, "invalid_request", f"{field or 'body'}: {first['msg']}", field or None
        ) from error


def _json(body: bytes, status: int = 200) -> web.Response:
    return web.json_response(body=body, status=status)
