"""What instances write, and its end: private folders where the launcher may mount, cleaning where it may not.

Nothing waits for either. Freeing or removing what an agent left takes as long as the agent made it take, so
errands do it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .errands import Errands
from .janitor import Janitor
from .quarters import Quarters

if TYPE_CHECKING:
    from collections.abc import Callable

    from .config import RunnerConfig
    from .families import Family

__all__ = ["Lodgings"]


class Lodgings:
    """Who has which folders: each family its own, and each candidate some in which its agent never was."""

    def __init__(self, config: RunnerConfig) -> None:
        self._config = config
        self._graders: dict[int, Quarters] = {}
        self.errands = Errands()
        self.janitor = Janitor(config)

    def of_family(self, family: Family) -> Quarters | None:
        """The quarters of a family, made for its first process; None where instances share their folders."""
        if self._config.rooms and family.quarters is None:
            family.quarters = Quarters.furnish(self._config.rooms)
        return family.quarters

    def of_candidate(self, serial: int) -> Quarters | None:
        """The quarters of an instance's candidates until ``clear_candidate``."""
        if self._config.rooms and serial not in self._graders:
            self._graders[serial] = Quarters.furnish(self._config.rooms)
        return self._graders.get(serial)

    def clear_candidate(self, serial: int) -> list[str]:
        """Do away with what the candidates of an instance wrote; what is left."""
        quarters = self._graders.pop(serial, None)
        if quarters is not None:
            self._vacate(quarters)
            return []
        uid, directory = self._config.grader_uid(serial), self._config.candidate_directory(serial)
        return self.janitor.clean(uid, [directory])

    def clear(self, serial: int, family: Family, done: Callable[[list[str]], None]) -> None:
        """Do away with what an instance wrote that has left its family; ``done`` gets what is left."""
        quarters, last = family.quarters, not family.members
        if last and quarters is not None and self._config.system_calls:
            # Nothing can lie elsewhere: other folders are not theirs to write, and they can make no objects.
            self._vacate(quarters)
            done([])
            return

        def clean() -> list[str]:
            if quarters is not None:
                quarters.enter()
            return self.janitor.clean_instance(serial, family.uid, last)

        handed_over = quarters.namespace if last and quarters is not None else None
        self.errands.run(f"files of {serial}", clean, done, handed_over)

    def _vacate(self, quarters: Quarters) -> None:
        """Let go of quarters; an errand has them last, and frees what lies in them by its end."""
        self.errands.run("folders", list, lambda _: None, quarters.namespace)
