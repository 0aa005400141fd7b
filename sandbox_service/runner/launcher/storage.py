"""What instances write, and its end: private folders where the launcher may mount, cleaning where it may not.

Nothing waits for either. Freeing or removing what an agent left takes as long as the agent made it take, so
errands do it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from sandbox_service.runner.kernel.mount_namespace import Quarters

from .cleanup import Janitor
from .cleanup_processes import Errands

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sandbox_service.runner.config import RunnerConfig

    from .uid_groups import Family

__all__ = ["Lodgings", "Stand"]

_AT_ONCE_S = 0.2
"""How long the removal of a candidate's files may keep the launcher waiting."""


@dataclass(frozen=True, slots=True)
class Stand:
    """Where, and as whom, one candidate runs; nothing of it was there before."""

    uid: int | None
    directory: str
    quarters: Quarters | None


class Lodgings:
    """Who has which folders: each family its own, and each candidate some in which its agent never was."""

    def __init__(self, config: RunnerConfig) -> None:
        self._config = config
        self._stands: dict[int, Stand] = {}
        self._graded: dict[int, set[int]] = {}
        self._unclean: dict[int, list[Stand]] = {}
        self._candidates = 0
        self.errands = Errands()
        self.janitor = Janitor(config)

    def of_family(self, family: Family) -> Quarters | None:
        """The quarters of a family, made for its first process; None where instances share their folders."""
        if self._config.rooms and family.quarters is None:
            family.quarters = Quarters.furnish(self._config.rooms)
        return family.quarters

    def of_candidate(self, serial: int) -> Stand:
        """A stand of its own for an instance's next candidate, until ``clear_candidate``."""
        if serial not in self._stands:
            config, number = self._config, self._candidates
            self._candidates += 1
            quarters = Quarters.furnish(config.rooms) if config.rooms else None
            stand = Stand(config.candidate_uid(number), config.candidate_directory(number), quarters)
            self._stands[serial] = stand
        return self._stands[serial]

    def has_candidate(self, serial: int) -> bool:
        """Whether an instance has a candidate that was not cleared away."""
        return serial in self._stands

    def candidate_uid(self, serial: int) -> int | None:
        """The user id of an instance's candidate, if it has a candidate."""
        stand = self._stands.get(serial)
        return None if stand is None else stand.uid

    def clear_candidate(self, serial: int) -> None:
        """Do away with what an instance's candidate wrote, so that no other candidate finds it."""
        stand = self._stands.pop(serial)
        if stand.quarters is not None:
            self._vacate(stand.quarters)
            return
        if stand.uid is not None:
            self._graded.setdefault(serial, set()).add(stand.uid)
        if self.janitor.clean(stand.uid, stand.directory, _AT_ONCE_S):
            return
        # Many files are closed to others and removed while the grading goes on; the release makes sure.
        self._unclean.setdefault(serial, []).append(stand)
        if stand.uid is not None:
            self.janitor.close(stand.uid)
        self.errands.run("files of a candidate", partial(self._remove, [stand]), lambda _: None)

    def _remove(self, stands: list[Stand]) -> list[str]:
        return [stand.directory for stand in stands if not self.janitor.clean(stand.uid, stand.directory)]

    def close(self, family: Family) -> bool:
        """Keep candidates from what an agent, which does not run, has left open in shared folders."""
        if family.quarters is not None or family.uid is None or not family.touched:
            return True
        return self.janitor.close(family.uid)

    def clear(self, serial: int, family: Family, done: Callable[[list[str]], None]) -> None:
        """Do away with what an instance wrote that has left its family; ``done`` gets what is left."""
        quarters, last = family.quarters, not family.members
        graded, unclean = self._graded.pop(serial, set()), self._unclean.pop(serial, [])
        if last and quarters is not None and self._config.system_calls:
            # Nothing can lie elsewhere: other folders are not theirs to write, and they can make no objects.
            self._vacate(quarters)
            done([])
            return

        def clean() -> list[str]:
            if quarters is not None:
                quarters.enter()
            left = self._remove(unclean)
            return left + self.janitor.clean_instance(serial, family.uid, last, graded)

        handed_over = quarters.namespace if last and quarters is not None else None
        self.errands.run(f"files of {serial}", clean, done, handed_over)

    def clear_all(self, families: Mapping[int, Family]) -> set[int]:
        """Do away with private folders of instances that all leave; the ids under which they wrote elsewhere.

        What they wrote elsewhere is the janitor's to remove, for all of them together.
        """
        uids: set[int | None] = set()
        for serial, family in families.items():
            if family.quarters is not None:
                self.clear(serial, family, lambda _: None)
            else:
                self._graded.pop(serial, None)
                uids |= {family.uid, *(stand.uid for stand in self._unclean.pop(serial, []))}
        return {uid for uid in uids if uid is not None}

    def _vacate(self, quarters: Quarters) -> None:
        """Let go of quarters; an errand has them last, and frees what lies in them by its end."""
        self.errands.run("folders", list, lambda _: None, quarters.namespace)
