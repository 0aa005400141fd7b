"""The start of a new run: what it leaves in its folder, and the release of its name if it is refused."""

from __future__ import annotations

import contextlib
import logging
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from trainer.errors import EngineError, Stalled, TrainerError
from trainer.tracking.run_id import RUN_ID

logger = logging.getLogger(__name__)

CONFIG = "run.json"
"""The file that makes a folder the folder of a run."""
LOGS = "logs"
_LOCK = "driver.lock"
_MARKS = frozenset({f"{CONFIG}.draft", _LOCK, RUN_ID, f"{RUN_ID}.draft"})
"""Files that nothing but a start leaves."""
_OF_A_START = _MARKS | {LOGS}
"""All that a start leaves that was refused, or ended before the run had its configuration."""
_CONTINUED = (EngineError, Stalled)
"""Failures after which a run is continued with --resume, as their messages say."""


def has_starts_only(folder: Path) -> bool:
    """Return whether a folder is empty, or has what starts left and nothing else."""
    names = _names(folder)
    return not names or (names <= _OF_A_START and not names.isdisjoint(_MARKS))


class NewStart:
    """The start of a new run in a folder, which it has not changed yet."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._is_new = not folder.exists()
        of_others = folder.is_dir() and not has_starts_only(folder)
        self._kept = _names(folder) - {RUN_ID} if of_others else frozenset[str]()

    def release_name(self) -> None:
        """Let another run begin in the folder. What was there before stays, and so do logs with content."""
        self._remove_written()
        (self._folder / CONFIG).unlink()  # after all else, since another run may begin from here on
        with contextlib.suppress(OSError):  # there are logs with content, or another run has begun
            if LOGS not in self._kept:
                (self._folder / LOGS).rmdir()
            if _LOCK not in self._kept:
                (self._folder / _LOCK).unlink(missing_ok=True)
            if self._is_new:
                self._folder.rmdir()

    def _remove_written(self) -> None:
        """Remove what the start has written, except configuration, logs and the lock that it holds."""
        for each in self._folder.iterdir():
            if each.name in {CONFIG, LOGS, _LOCK, *self._kept}:
                continue
            if each.is_dir() and not each.is_symlink():
                shutil.rmtree(each)
            else:
                each.unlink()


def _names(folder: Path) -> frozenset[str]:
    return frozenset(each.name for each in folder.iterdir())


@contextlib.contextmanager
def until_begun(start: NewStart | None) -> Iterator[Callable[[], None]]:
    """Yield the function to call when a run has begun; a new run that is refused before releases its name.

    So its settings can be corrected, which no resume may change. ``start`` is None for a run that is resumed.
    """
    begun = False

    def begin() -> None:
        nonlocal begun
        begun = True

    try:
        yield begin
    except TrainerError as error:
        if start is not None and not begun and not isinstance(error, _CONTINUED):
            try:
                start.release_name()
            except OSError as failure:
                logger.warning("the refused run keeps its name; replace it with --force: %s", failure)
        raise
