"""Work in a thread of its own, while the main thread waits and answers Ctrl-C."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["apart"]

T = TypeVar("T")

_LOOK_S = 0.5


def apart(work: Callable[[], T]) -> T:
    """What the work returns or raises. KeyboardInterrupt leaves it behind, in a thread
    that ends with the process.

    For libraries that put their own handler in place of the one for SIGINT when the main thread calls them.
    """
    done: Future[T] = Future()

    def run() -> None:
        try:
            done.set_result(work())
        except BaseException as error:  # noqa: BLE001 - whatever it is, it is the caller's
            done.set_exception(error)

    thread = threading.Thread(target=run, name="apart", daemon=True)
    thread.start()
    while thread.is_alive():
        thread.join(_LOOK_S)
    return done.result()
