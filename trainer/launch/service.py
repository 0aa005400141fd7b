"""Connect to the configured sandbox service, or start one that ends with the run."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from local_processes.ports import free_port
from local_processes.prctl import end_with_parent
from local_processes.readiness import refusal
from local_processes.wait_report import WaitReport
from local_processes.waiting import Deadline, wait_until
from trainer.errors import ServiceFailed, ServiceUnavailable

if TYPE_CHECKING:
    from trainer.config import SandboxServiceConfig

logger = logging.getLogger(__name__)

_STOP_S = 90.0
"""Time for the service to end: the ``TimeoutStopSec`` of its systemd unit."""
_POLL_S = 0.25
_ANSWER_S = 5.0


@contextlib.contextmanager
def sandbox_service(settings: SandboxServiceConfig, environments: Sequence[str], logs: Path) -> Iterator[str]:
    """Yield the URL of a ready service with these environments.

    Raises ServiceUnavailable, and ServiceFailed for one that was started here.
    """
    if settings.url is not None:
        _await_given(settings.url, settings.start_timeout_s)
        yield settings.url
        return
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    log = logs / "service.log"
    with log.open("ab") as output:
        process = subprocess.Popen(
            [*service_command(), "serve", f"server.port={port}", *_arguments(settings, environments)],
            stdout=output,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C goes to the trainer only, which then ends the service
            preexec_fn=end_with_parent,  # PDEATHSIG: a killed trainer leaves no service behind
        )
    try:
        _await_ready(url, settings.start_timeout_s, process, log)
        yield url
    finally:
        _stop(process)


def service_command() -> list[str]:
    """Return the command line that starts this installation's service."""
    beside = Path(sys.executable).with_name("sandbox-service")
    return [str(beside)] if beside.exists() else ["sandbox-service"]


def _arguments(settings: SandboxServiceConfig, environments: Sequence[str]) -> list[str]:
    arguments = list(settings.start)
    if not any(argument.startswith("environments.enabled=") for argument in arguments):
        arguments.append(f"environments.enabled={json.dumps(list(environments))}")
    if not any(argument.startswith("agents.model_endpoints=") for argument in arguments):
        # Agents in its boxes reach the run's gateway, whose port is not known yet. Whoever can call the
        # service, which listens on loopback, can reach these ports anyway.
        arguments.append('agents.model_endpoints=["127.0.0.1:*"]')
    return arguments


def _await_given(url: str, timeout_s: float) -> None:
    """Await a service that was started elsewhere, and report its last answer while it is not ready."""
    with WaitReport(logger.warning, url) as report:
        _await_ready(
            url,
            timeout_s,
            on_refusal=lambda answer: report.wait_for(f"{url} ({answer}), at most {timeout_s:g} s"),
        )


def _await_ready(
    url: str,
    timeout_s: float,
    process: subprocess.Popen[bytes] | None = None,
    log: Path | None = None,
    on_refusal: Callable[[str], None] | None = None,
) -> None:
    answer: str | None = None

    def ready() -> bool:
        nonlocal answer
        if process is not None and process.poll() is not None:
            raise ServiceFailed(f"the sandbox service exited while starting:\n{_tail(log)}")
        answer = refusal(f"{url.rstrip('/')}/readyz", _ANSWER_S)
        if answer is not None and on_refusal is not None:
            on_refusal(answer)
        return answer is None

    if wait_until(ready, Deadline.after(timeout_s), poll_s=_POLL_S):
        return
    late = f"no sandbox service is ready at {url} after {timeout_s:g} s ({answer})"
    if process is not None:
        raise ServiceFailed(f"{late}:\n{_tail(log)}")
    raise ServiceUnavailable(
        f"{late}; start one with: sandbox-service serve, or leave service.url out, so that the run starts one"
    )


def _tail(log: Path | None) -> str:
    if log is None:
        return ""
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    return "\n".join(lines[-15:]) + f"\n(full log: {log})"


def _stop(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is not None:
        return
    # The command alone is asked to end: it ends Ray and the boxes in their order. The rest of its session is
    # killed with it only when it does not.
    process.terminate()
    try:
        process.wait(_STOP_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(_STOP_S)
