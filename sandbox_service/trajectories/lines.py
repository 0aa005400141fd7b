"""Episodes as lines of a file: the formats, and what makes an episode's line in each."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import TYPE_CHECKING

from .atif import atif_document
from .rows import episode_row

if TYPE_CHECKING:
    from .rows import MakeEpisode


class LineFormat(StrEnum):
    """The format of a file with a line for each episode."""

    JSONL = "jsonl"
    """Rows with the messages in OpenAI's form."""
    ATIF = "atif"
    """Documents of the Agent Trajectory Interchange Format."""

    @property
    def mark(self) -> str | bool:
        """The name of the format between gateway and supervisor."""
        # Releases with one format call it so.
        return self is LineFormat.JSONL or self.value


def format_of(mark: object) -> LineFormat:
    """Return the format of a mark.

    A format of a later release is answered with JSONL, whose mark shows the gateway that it is not what it
    asked for.
    """
    return next((each for each in LineFormat if each.mark == mark), LineFormat.JSONL)


MAKE_EPISODE: Mapping[LineFormat, MakeEpisode] = {
    LineFormat.JSONL: episode_row,
    LineFormat.ATIF: atif_document,
}
"""The function that makes an episode's line."""
