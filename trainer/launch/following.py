"""Follow a run's files and report new metrics and logged warnings to callbacks."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeAlias

from trainer.tracking.jsonl import parsed_line
from trainer.tracking.logs import warning_in

OnMetrics: TypeAlias = "Callable[[int, dict[str, float]], None]"
OnWarning: TypeAlias = "Callable[[str], None]"

_LOOK_S = 0.5


@contextmanager
def following(path: Path, told: OnMetrics | None) -> Iterator[None]:
    """Report metrics written while the block runs; earlier ones are skipped."""

    def tell(line: str) -> None:
        parsed = parsed_line(line)
        if parsed is not None and told is not None:
            step, metrics = parsed
            told(step, {name: value for name, value in metrics.items() if not math.isnan(value)})

    with _new_lines(path, tell if told is not None else None):
        yield


@contextmanager
def warned(path: Path, told: OnWarning | None) -> Iterator[None]:
    """Report warnings appended to a log while the block runs, above all stall reports."""

    def tell(line: str) -> None:
        sentence = warning_in(line)
        if sentence is not None and told is not None:
            told(sentence)

    with _new_lines(path, tell if told is not None else None):
        yield


@contextmanager
def _new_lines(path: Path, told: Callable[[str], None] | None) -> Iterator[None]:
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


def _follow(path: Path, position: int, told: Callable[[str], None], over: threading.Event) -> None:
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
        for line in whole.decode(errors="replace").splitlines():
            told(line)
