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
def following(path: Path, on_metrics: OnMetrics | None) -> Iterator[None]:
    """Report metrics written while the block runs; earlier ones are skipped."""

    def report(line: str) -> None:
        parsed = parsed_line(line)
        if parsed is not None and on_metrics is not None:
            step, metrics = parsed
            on_metrics(step, {name: value for name, value in metrics.items() if not math.isnan(value)})

    with _new_lines(path, report if on_metrics is not None else None):
        yield


@contextmanager
def warned(path: Path, on_warning: OnWarning | None) -> Iterator[None]:
    """Report warnings appended to a log while the block runs, above all stall reports."""

    def report(line: str) -> None:
        sentence = warning_in(line)
        if sentence is not None and on_warning is not None:
            on_warning(sentence)

    with _new_lines(path, report if on_warning is not None else None):
        yield


@contextmanager
def _new_lines(path: Path, on_line: Callable[[str], None] | None) -> Iterator[None]:
    if on_line is None:
        yield
        return
    over = threading.Event()
    begin = path.stat().st_size if path.exists() else 0
    thread = threading.Thread(target=_follow, args=(path, begin, on_line, over), daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _follow(path: Path, position: int, on_line: Callable[[str], None], over: threading.Event) -> None:
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
            on_line(line)
