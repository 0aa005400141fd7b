"""Keep the earlier run of a name until the run that replaces it has begun.

Its folder is renamed for the start of the new run, and deleted when that has written its first metrics. A
start that is refused, fails or is interrupted gives the folder its name back; after one that was killed,
``recover`` does.
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING, TypeAlias

from trainer.errors import ConfigError

from .folder import RunFolder
from .locking import is_locked, locked

if TYPE_CHECKING:
    from trainer.config import RunConfig

    from .following import OnWarning

logger = logging.getLogger(__name__)

_BLOCK = 512
"""Bytes of a block of ``stat``."""

DeleteEarlier: TypeAlias = Callable[[], None]
"""Deletes the earlier run, once the new one has begun. Idempotent."""


@contextmanager
def replacing(
    config: RunConfig, on_warning: OnWarning | None = None, *, wanted: bool = True
) -> Iterator[DeleteEarlier]:
    """Set the earlier run of this name aside, if there is one, and put it back unless the block deletes it.

    ``on_warning`` is called when it is put back. If it is not ``wanted``, nothing is done. Raises ConfigError
    for an earlier run that cannot be replaced.
    """
    folder = config.folder.absolute()
    if wanted:
        recover(config)
        RunFolder.check_name(config, resume=False, replace=True)
    if not wanted or not folder.exists():
        yield lambda: None
        return
    aside = _aside(folder)
    with ExitStack() as held:
        # Under its lock, which is renamed with it, no other command takes it for abandoned.
        held.enter_context(locked(folder))

        def delete() -> None:
            if aside.exists():
                deleted = _out_of_the_way(aside)
                held.close()  # NFS keeps the file of a lock that is held, and with it the folder
                _delete(deleted)

        try:
            folder.rename(aside)
            yield delete
        finally:
            if aside.exists():
                _put_back(folder)
                if on_warning is not None:
                    on_warning(f"the new run has not begun: the earlier one is kept in {folder}")


def recover(config: RunConfig) -> str | None:
    """Put the earlier run of this name back if the start that set it aside was killed.

    Return a sentence about it, or None where nothing was set aside. Raises ConfigError while another process
    is replacing the run, and where a run has begun under its name since.
    """
    folder = config.folder.absolute()
    aside = _aside(folder)
    for left in folder.parent.glob(f".{folder.name}~deleted-*"):
        _delete(left)
    if not aside.exists():
        return None
    try:
        in_use = is_locked(aside) or is_locked(folder)
    except OSError as error:
        raise ConfigError(
            f"{aside} is an earlier run that --force set aside, and whether a command is still replacing it "
            f"cannot be seen here ({error}): if none is, give it the name {folder.name}, or remove it"
        ) from error
    if in_use:
        raise ConfigError(
            f"another process is replacing the run in {folder}: wait until the new one has begun, or end it"
        )
    if _has_begun(folder):
        raise ConfigError(
            f"{aside} is an earlier run that --force set aside, and the one in {folder} has begun without "
            "deleting it: remove it, or rename it"
        )
    _put_back(folder)
    return f"the earlier run is back in {folder}: the command that was replacing it was killed at its start"


def _aside(folder: Path) -> Path:
    """Return the place of an earlier run while the new one starts: no run has such a name."""
    return folder.with_name(f".{folder.name}~replaced")


def bytes_set_aside(config: RunConfig) -> int:
    """Return the bytes on disk of the earlier run that is set aside, which go when the new one begins.

    For a run in the folder of an evolution, it is the earlier evolution, which is beside that folder. It does
    not count for the phases of an iteration: the first of them is over before it goes.
    """
    folder = config.folder.absolute()
    asides = [_aside(each) for each in (folder, folder.parent) if each.name]
    return sum(file.lstat().st_blocks * _BLOCK for aside in asides for file in aside.rglob("*"))


def _put_back(folder: Path) -> None:
    """Give an earlier run its name back, with the logs of the start that was to replace it."""
    failed = _out_of_the_way(folder) if folder.exists() else None
    _aside(folder).rename(folder)
    if failed is not None:
        with suppress(OSError):  # such as a full disk, which may be why the start failed
            _append_logs(failed / "logs", folder / "logs")
        _delete(failed)


def _append_logs(added: Path, logs: Path) -> None:
    """Append logs to those of the same names, as a start that resumes does: messages name them."""
    for log in added.glob("*"):
        if log.is_file():
            logs.mkdir(exist_ok=True)
            with log.open("rb") as source, (logs / log.name).open("ab") as target:
                shutil.copyfileobj(source, target)


def _out_of_the_way(folder: Path) -> Path:
    """Rename a folder that is about to be deleted, so that one that is half deleted is no run."""
    name = folder.name.removeprefix(".").removesuffix("~replaced")
    return folder.rename(Path(mkdtemp(prefix=f".{name}~deleted-", dir=folder.parent)))


def _delete(folder: Path) -> None:
    """Delete a folder that is out of the way. A warning names it if some of it stays."""
    try:
        shutil.rmtree(folder)
    except FileNotFoundError:  # another command deletes it, too
        shutil.rmtree(folder, ignore_errors=True)
    except OSError as error:
        shutil.rmtree(folder, ignore_errors=True)
        if folder.exists():
            logger.warning("%s could not be deleted and takes up disk space: remove it (%s)", folder, error)


def _has_begun(folder: Path) -> bool:
    """Return whether a run has metrics, or an evolution has evaluated its base model."""
    metrics = RunFolder(folder).metrics
    return (metrics.exists() and metrics.stat().st_size > 0) or any(
        folder.glob("iteration_0/evaluation.json")
    )
