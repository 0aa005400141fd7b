"""Tells whoever watches of a run's metrics, as they are written."""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

__all__ = ["following"]

OnMetrics: TypeAlias = "Callable[[int, dict[str, float]], None]"

_LOOK_S = 0.5


@contextmanager
def following(path: Path, told: OnMetrics | None) -> Iterator[None]:
    """Tell of the lines that come while the block runs; what is there already is not told."""
    if told is None:
        yield
        return
    over = threading.Event()
    begin = path.stat().st_size if path.exists() else 0
    thread = threading.Thread(target=_follow, args=(path, begin, told, over), daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _follow(path: Path, position: int, told: OnMetrics, over: threading.Event) -> None:
    last = False
    while not last:
        last = over.wait(_LOOK_S)
        if not path.exists():
            continue
        with path.open("rb") as file:
            file.seek(position)
            fresh = file.read()
        whole = fresh[: fresh.rfind(b"\n") + 1]
        position += len(whole)
        for step, metrics in _whole_lines(whole.decode()):
            told(step, metrics)


def _whole_lines(text: str) -> Iterator[tuple[int, dict[str, float]]]:
    for line in text.splitlines():
        with suppress(ValueError):  # a line that a crash cut off
            entry = json.loads(line)
            known = {name: value for name, value in entry["metrics"].items() if value is not None}
            yield entry["step"], known
