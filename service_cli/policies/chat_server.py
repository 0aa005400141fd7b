"""An OpenAI-compatible chat-completions server: a call, tried again while that helps, by a deadline."""

from __future__ import annotations

import asyncio
import random
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import httpx
from pydantic import BaseModel, ConfigDict, ValidationError

from sandbox_service.contract.messages import Message

from .policies import PolicyError

if TYPE_CHECKING:
    from sandbox_service.contract.base import JsonObject

__all__ = ["ChatAnswer", "ChatServer", "ContextFullError", "api_base"]

_AGAIN = frozenset({408, 409, 425, 429, 500, 502, 503, 504})
_CONTEXT = (
    "context_length_exceeded",
    "exceed_context_size",
    "maximum context length",
    "context length",
    "context size",
    "context window",
    "prompt is too long",
)
_FIRST_WAIT_S = 0.5
_LONGEST_WAIT_S = 20.0
_PROBE_S = 10.0
_MOST_DETAIL = 300


class ContextFullError(PolicyError):
    """The conversation is longer than the model takes."""

    def __init__(self, detail: str, code: str = "context_length") -> None:
        super().__init__(detail, code)


class _Lenient(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class _Choice(_Lenient):
    message: Message
    finish_reason: str | None = None


class _Tokens(_Lenient):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None


class _Completion(_Lenient):
    choices: tuple[_Choice, ...]
    usage: _Tokens | None = None


@dataclass(frozen=True, slots=True)
class ChatAnswer:
    """What the model said."""

    message: Message
    tokens_in: int
    tokens_out: int
    cut: bool
    """It ended at the limit of its length."""


def api_base(url: str) -> str:
    """The address in front of ``/chat/completions``; ``/v1`` is added where there is no version.

    Raises PolicyError for what is no HTTP address.
    """
    try:
        parts = httpx.URL(url)
    except httpx.InvalidURL:
        parts = httpx.URL()
    if parts.scheme not in ("http", "https") or not parts.host:
        raise PolicyError(f"{url!r} is no address of a model server; write http://HOST:PORT", "usage")
    base = url.rstrip("/").removesuffix("/chat/completions")
    last = httpx.URL(base).path.rpartition("/")[2]
    versioned = last.startswith("v") and last[1:2].isdigit()
    return base if versioned else f"{base}/v1"


class ChatServer:
    """One model on one server, seen from one event loop."""

    def __init__(
        self,
        url: str,
        api_key: str | None = None,
        *,
        timeout_s: float = 240.0,
        first_wait_s: float = _FIRST_WAIT_S,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._base = api_base(url)
        self._timeout_s = timeout_s
        self._first_wait_s = first_wait_s
        headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=256)
        self._http = httpx.AsyncClient(headers=headers, limits=limits, transport=transport, timeout=timeout_s)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def probe(self) -> None:
        """See whether somebody answers and takes the key. Raises PolicyError when not."""
        try:
            reply = await self._http.get(f"{self._base}/models", timeout=min(_PROBE_S, self._timeout_s))
        except httpx.TimeoutException:
            # A busy server is not a missing one.
            return
        except httpx.HTTPError as error:
            raise PolicyError(
                f"no model server answers at {self._base}: {_said(error)}", "model_unreachable"
            ) from error
        if reply.status_code in (401, 403):
            raise _refused(reply)

    async def complete(self, body: JsonObject) -> ChatAnswer:
        """One completion. Raises ContextFullError, or PolicyError when there is none before the deadline."""
        began, wait_s = time.monotonic(), self._first_wait_s
        last, code = "no answer", "model_timeout"
        while True:
            left_s = self._timeout_s - (time.monotonic() - began)
            try:
                async with asyncio.timeout(max(0.001, left_s)):
                    reply = await self._http.post(f"{self._base}/chat/completions", json=body)
            except TimeoutError:
                detail = f"the model server gave no answer in {self._timeout_s:g} s; last: {last}"
                raise PolicyError(detail, code) from None
            except httpx.TransportError as error:
                last, asked_s, code = _said(error), 0.0, "model_unreachable"
            else:
                if reply.status_code not in _AGAIN:
                    return _read(reply)
                last, asked_s, code = (
                    f"{reply.status_code} {_detail(reply)}",
                    _retry_after(reply),
                    "model_failed",
                )
            pause_s = max(asked_s, wait_s * (0.5 + random.random() / 2))
            if time.monotonic() - began + pause_s > self._timeout_s:
                raise PolicyError(f"the model server failed for {self._timeout_s:g} s: {last}", code)
            await asyncio.sleep(pause_s)
            wait_s = min(_LONGEST_WAIT_S, wait_s * 2)


def _read(reply: httpx.Response) -> ChatAnswer:
    if reply.status_code != 200:
        raise _refused(reply)
    try:
        completion = _Completion.model_validate_json(reply.content)
        choice = completion.choices[0]
    except (ValidationError, IndexError) as error:
        problem = error.errors()[0]["msg"] if isinstance(error, ValidationError) else "no choices"
        raise PolicyError(
            f"the model server's answer is no completion: {problem}", "model_nonsense"
        ) from None
    usage = completion.usage or _Tokens()
    return ChatAnswer(
        message=choice.message,
        tokens_in=usage.prompt_tokens or 0,
        tokens_out=usage.completion_tokens or 0,
        cut=choice.finish_reason == "length",
    )


def _refused(reply: httpx.Response) -> PolicyError:
    detail = _detail(reply)
    if reply.status_code in (400, 413, 422) and any(sign in reply.text.lower() for sign in _CONTEXT):
        return ContextFullError(detail)
    return PolicyError(f"the model server refused: {reply.status_code} {detail}", "model_refused")


def _detail(reply: httpx.Response) -> str:
    """The sentence in an error body, in the forms that servers give it."""
    try:
        body = reply.json()
    except ValueError:
        return reply.text[:_MOST_DETAIL]
    found = body.get("error", body) if isinstance(body, dict) else body
    if isinstance(found, dict):
        found = found.get("message") or found.get("detail") or found
    return str(found)[:_MOST_DETAIL]


def _retry_after(reply: httpx.Response) -> float:
    try:
        return max(0.0, float(reply.headers.get("retry-after", "0")))
    except ValueError:
        return 0.0


def _said(error: Exception) -> str:
    return str(error) or type(error).__name__
