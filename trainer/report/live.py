"""Serve a report during the run: the page is rendered again when the run's files have changed."""

from __future__ import annotations

import contextlib
import hashlib
import threading
from collections.abc import Callable, Iterator, Sequence
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from trainer.errors import TrainerError

_WATCHED = (
    *("run.json", "metrics.jsonl", "evaluations.jsonl", "trajectories.jsonl", "consumed.jsonl"),
    "iteration_*/*.json",  # of an evolution: the results of its phases
)
_HOST = "127.0.0.1"
_NAMES = frozenset({_HOST, "localhost"})
"""Accepted Host headers. Others come from pages elsewhere whose name was pointed here (DNS rebinding)."""
_AGAIN_S = 5


class LiveReport:
    """The latest page of some run folders, rendered at most once for each state of their files."""

    def __init__(self, folders: Sequence[Path], render: Callable[[str], str]) -> None:
        self._folders = folders
        self._render = render
        self._lock = threading.Lock()
        self._made: tuple[str, str] | None = None

    def state(self) -> str:
        """Return a digest that changes when a run has written something."""
        digest = hashlib.sha256()
        for file in self._files():
            with contextlib.suppress(FileNotFoundError):  # renamed or removed meanwhile
                stat = file.stat()
                digest.update(f"{file} {stat.st_mtime_ns} {stat.st_size}\n".encode())
        return digest.hexdigest()[:16]

    def _files(self) -> Iterator[Path]:
        for folder in self._folders:
            for name in _WATCHED:
                yield from sorted(folder.glob(name))

    def page(self) -> str:
        """Return the page of the present state. Raises TrainerError while there is none."""
        with self._lock:
            state = self.state()
            if self._made is None or self._made[0] != state:
                self._made = state, self._render(state)
            return self._made[1]


class ReportServer(ThreadingHTTPServer):
    """Serve a live report on the loopback interface."""

    daemon_threads = True

    def __init__(self, report: LiveReport, port: int) -> None:
        super().__init__((_HOST, port), _Handler)
        self.report = report

    @property
    def url(self) -> str:
        """URL of the page."""
        return f"http://{_HOST}:{self.server_port}/"


class _Handler(BaseHTTPRequestHandler):
    server: ReportServer

    def do_GET(self) -> None:
        if self.headers.get("Host", "").rpartition(":")[0] not in _NAMES:
            self._answer(HTTPStatus.FORBIDDEN, "text/plain", "the report is served to this machine only\n")
        elif self.path == "/state":
            self._answer(HTTPStatus.OK, "text/plain", self.server.report.state())
        elif self.path == "/":
            self._page()
        else:
            self._answer(HTTPStatus.NOT_FOUND, "text/plain", "only / exists\n")

    def _page(self) -> None:
        try:
            self._answer(HTTPStatus.OK, "text/html", self.server.report.page())
        except TrainerError as error:
            self._answer(HTTPStatus.SERVICE_UNAVAILABLE, "text/plain", f"{error}\n", Refresh=str(_AGAIN_S))

    def _answer(self, status: HTTPStatus, kind: str, text: str, **headers: str) -> None:
        body = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Suppress the log line of each request."""
