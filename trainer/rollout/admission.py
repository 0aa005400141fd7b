"""Which group may begin, and which groups a step is made of: pure decisions that bound staleness exactly.

A step takes F fresh groups. With weights of version v and a lag of L updates, groups may begin until
``(v + L + 1) * F`` have begun that were not dropped. A group that began at version v has to be used by step
``v + L``: a step waits for old groups while younger ones would leave more of them than the steps until then
can take, so no group is ever older than L updates when it is used.
With L = 0 this is sampling and training by turns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trainer.config import RunConfig

__all__ = ["choose", "fresh_groups", "lag", "may_begin"]


def fresh_groups(config: RunConfig) -> int:
    """F: groups of a step that are not replayed."""
    groups = config.rollout.groups
    return groups - int(config.tasks.replay.share * groups)


def lag(config: RunConfig) -> int:
    """L: updates that weights may have gone on; those between two publications come on top."""
    return config.rollout.max_staleness + config.sync.every - 1


def may_begin(begun: int, version: int, fresh: int, lag: int) -> bool:
    """Whether one more group may begin; ``begun`` counts all that did and were not dropped."""
    return begun < (version + lag + 1) * fresh


def choose(
    ready: Mapping[int, int], playing: Mapping[int, int], step: int, fresh: int, lag: int
) -> tuple[int, ...] | None:
    """The groups of a step in order of index, or None while it has to wait.

    ``ready`` and ``playing`` map a group's index to the version at which it began. The oldest are taken. The
    step waits as long as those that would be left, played or not, are more than later steps can take in time.
    """
    if len(ready) < fresh:
        return None
    oldest = sorted(ready, key=lambda index: (ready[index], index))
    left = sorted([*(ready[index] for index in oldest[fresh:]), *playing.values()])
    if playing and any(count > fresh * (version + lag - step) for count, version in enumerate(left, start=1)):
        return None
    return tuple(sorted(oldest[:fresh]))
