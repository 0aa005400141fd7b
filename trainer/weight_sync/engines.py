"""All engines at once: every verb goes to each that is there, and those that die on the way are set aside."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from concurrent.futures import TimeoutError as FutureTimeout
from typing import TYPE_CHECKING, TypeVar

from trainer.errors import EngineGone, EngineLost, Stalled

if TYPE_CHECKING:
    from concurrent.futures import Future

    from .ends import EngineFacts, EngineHandle


logger = logging.getLogger(__name__)
T = TypeVar("T")

GONE_LIMIT = 5
"""Times that all lost engines have to be called gone; one that is about to start again may be, for once."""


class Engines:
    """Those that a weight sync goes to. One object serves one weight sync."""

    def __init__(self, handles: Sequence[EngineHandle], timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._deadline = time.monotonic() + timeout_s
        self.there = list(handles)
        self.lost: list[EngineHandle] = []

    def each(self, what: str, call: Callable[[EngineHandle], Future[T]]) -> dict[str, T]:
        """Their answers by name; an engine that is lost is not among them, nor asked again.

        Raises:
            EngineError: one refused.
            Stalled: one did not answer before the weight sync's deadline.
        """
        asked = [(handle, call(handle)) for handle in self.there]
        answers: dict[str, T] = {}
        for handle, future in asked:
            try:
                answers[handle.name] = future.result(self._left())
            except EngineLost as error:
                logger.warning("%s is lost while it was asked to %s: %s", handle.name, what, error)
                self.there.remove(handle)
                self.lost.append(handle)
            except FutureTimeout as error:
                raise Stalled(f"{handle.name} did not {what} within {self._timeout_s:g} s") from error
        return answers

    def get_status(self) -> dict[str, EngineFacts]:
        """How each is."""
        return self.each("say how it is", lambda handle: handle.get_status())

    def returned(self, retry_s: float = 0.5) -> Engines:
        """The lost ones that are back before the deadline; the others stay lost."""
        back = Engines([], self._left())
        gone_in_a_row = 0
        while self.lost and self._left() > 0 and gone_in_a_row < GONE_LIMIT:
            gone = 0
            for handle in list(self.lost):
                try:
                    handle.get_status().result(self._left())
                except EngineGone:
                    gone += 1
                except (EngineLost, FutureTimeout):
                    continue
                else:
                    self.lost.remove(handle)
                    back.there.append(handle)
            gone_in_a_row = gone_in_a_row + 1 if gone == len(self.lost) else 0
            if self.lost:
                time.sleep(min(retry_s, self._left()))
        return back

    def _left(self) -> float:
        return max(self._deadline - time.monotonic(), 0.0)
