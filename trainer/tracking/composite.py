"""Several trackers as one: the run's own record first, then optional ones."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .tracker import Tracker


logger = logging.getLogger(__name__)


class CompositeTracker:
    """Log to all trackers. An optional one that fails is disabled with a warning, since metrics must not end
    a run.
    """

    def __init__(self, own: Tracker, optional: Iterable[Tracker] = ()) -> None:
        self._own = own
        self._optional = list(optional)

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        self._own.log(step, metrics)
        for tracker in tuple(self._optional):
            try:
                tracker.log(step, metrics)
            except Exception as error:  # noqa: BLE001 - services of others fail in ways of their own
                self._optional.remove(tracker)
                logger.warning("tracker %s failed and was disabled: %s", type(tracker).__name__, error)

    def close(self) -> None:
        self._own.close()
        for tracker in self._optional:
            try:
                tracker.close()
            except Exception as error:  # noqa: BLE001 - as above
                logger.warning("tracker %s could not be closed: %s", type(tracker).__name__, error)
