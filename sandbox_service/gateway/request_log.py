"""The request log: one line for each failed request, and for a sample of the others.

Lines never contain bodies, keys or paths with ids. A line for every successful step would cost several
percent of a replica's throughput, so successes are sampled, by default not at all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sandbox_service.telemetry import get_logger

if TYPE_CHECKING:
    from .exchange import HttpExchange

logger = get_logger(__name__)

_SERVER_ERROR = 500


class RequestLog:
    """Writes the request log of one replica; one of ``sample_every`` successes is logged, 0 means none."""

    def __init__(self, sample_every: int = 0) -> None:
        self._sample_every = sample_every
        self._successes = 0

    def log_request(self, exchange: HttpExchange) -> None:
        """Log a request that was answered or abandoned, if it failed or is sampled."""
        if exchange.error is None and not self._sampled():
            return
        write = logger.warning if exchange.status >= _SERVER_ERROR else logger.info
        write(
            "request_served",
            request_id=exchange.request_id,
            tenant=exchange.tenant,
            method=exchange.method,
            route=exchange.route,
            instance_id=exchange.instance_id,
            status=exchange.status,
            code=exchange.error.value if exchange.error else None,
            ms=round(exchange.elapsed_s * 1000, 3),
        )

    def log_defect(self, exchange: HttpExchange, error: Exception) -> None:
        """Log an unexpected error with its traceback, which is not sent to the client."""
        logger.error(
            "defect",
            request_id=exchange.request_id,
            route=exchange.route,
            instance_id=exchange.instance_id,
            exc_info=error,
        )

    def _sampled(self) -> bool:
        if not self._sample_every:
            return False
        self._successes += 1
        return self._successes % self._sample_every == 0
