"""The state of a deployment, from the dashboard of its cluster.

``serve status`` prints the same, and takes some seconds of CPU time: a test that polled it would slow down
what it waits for.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

import httpx

from local_processes.waiting import Deadline

_POLL_S = 0.5


def wait_for_status(status: str, dashboard: int, environment: Mapping[str, str], limit_s: float) -> str:
    """Wait until the only application has a status, such as RUNNING; return its message.

    Args:
        status: the status that is awaited.
        dashboard: the port of the dashboard.
        environment: the one of a node's processes, which names the cluster's token.
        limit_s: after so many seconds the test fails.
    """
    token = Path(environment["RAY_AUTH_TOKEN_PATH"]).read_text(encoding="utf-8")
    deadline = Deadline.after(limit_s)
    while (found := _application(dashboard, token)).get("status") != status:
        assert not deadline.passed, found
        time.sleep(_POLL_S)
    return " ".join(found["message"].split())


def _application(dashboard: int, token: str) -> dict[str, str]:
    """Return status and message of the application; the reason as the message while there is no answer."""
    url = f"http://127.0.0.1:{dashboard}/api/serve/applications/"
    try:
        answer = httpx.get(url, headers={"Authorization": f"Bearer {token}"}, timeout=30)
    except httpx.TransportError as error:
        return {"message": str(error)}
    if not answer.is_success:
        return {"message": answer.text}
    return next(iter(answer.json()["applications"].values()), {"message": "no application"})
