"""Wait until a service answers that it is ready, by the same request as its clients use."""

from __future__ import annotations

import http.client
import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import TYPE_CHECKING

from .waiting import wait_until

if TYPE_CHECKING:
    from .waiting import Deadline


_ANSWER_S = 5.0
_MOST_BYTES = 64 * 1024
_MOST_SHOWN = 300


class NotReadyError(RuntimeError):
    """The service did not become ready in time; the text contains its last answer."""


def reachable_host(host: str) -> str:
    """Return an address by which this machine reaches a server that listens on ``host``."""
    return {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}.get(host, host)


def read_body(url: str, timeout_s: float) -> bytes | None:
    """Return the body, its first 64 KiB at most, where a GET of ``url`` answers 200; else None."""
    try:
        with _get(url, timeout_s) as response:
            return bytes(response.read(_MOST_BYTES)) if response.status == 200 else None
    except urllib.error.HTTPError as refused:
        refused.close()
    except (OSError, http.client.HTTPException):
        pass
    return None


def refusal(url: str, timeout_s: float) -> str | None:
    """Return None where a GET of ``url`` answers 200, else its answer or the error."""
    try:
        with _get(url, timeout_s) as response:
            return None if response.status == 200 else f"HTTP {response.status}"
    except urllib.error.HTTPError as refused:
        with refused:
            return f"HTTP {refused.code}: {_detail_of(refused)}"
    except (OSError, http.client.HTTPException) as error:
        cause = error.reason if isinstance(error, urllib.error.URLError) else error
        return f"{type(cause).__name__}: {cause}" if isinstance(cause, BaseException) else cause


def wait_until_ready(host: str, port: int, deadline: Deadline, check: Callable[[str], None]) -> None:
    """Request ``/readyz`` until it answers 200, once at least.

    ``check`` gets each other answer, and raises when the service can no longer become ready. Raises
    NotReadyError.
    """
    address = reachable_host(host)
    url = f"http://[{address}]:{port}/readyz" if ":" in address else f"http://{address}:{port}/readyz"
    answer: str | None = None

    def ready() -> bool:
        nonlocal answer
        answer = refusal(url, _ANSWER_S)
        if answer is not None:
            check(answer)
        return answer is None

    if not wait_until(ready, deadline):
        took_s = time.monotonic() - deadline.began
        raise NotReadyError(
            f"not ready after {took_s:.0f} s: {answer}; if this machine is busy, try again, "
            f"or give it longer: fleet.start_timeout_s is {deadline.timeout_s:g}"
        )


def _get(url: str, timeout_s: float) -> http.client.HTTPResponse:
    """Send a GET, like the service's clients without a proxy of the environment: none reaches loopback."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    response: http.client.HTTPResponse = opener.open(url, timeout=timeout_s)
    return response


def _detail_of(refused: urllib.error.HTTPError) -> str:
    try:
        return problem_detail(refused.read(_MOST_BYTES))
    except (OSError, http.client.HTTPException) as error:
        return f"{type(error).__name__}: {error}"


def problem_detail(body: bytes) -> str:
    """Return the detail of a problem document, or the beginning of any other body."""
    try:
        problem = json.loads(body)
    except ValueError:
        problem = None
    if isinstance(problem, dict) and isinstance(problem.get("detail"), str):
        return str(problem["detail"])
    return body[:_MOST_SHOWN].decode(errors="replace").strip()
