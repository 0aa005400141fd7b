"""Messages between the main process and the launcher. Instances have serial numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from sandbox_service.wire.json_types import JsonObject  # noqa: TC001 - the codec reads the fields' types

from .codec import Codec, RunnerMessage


@dataclass(frozen=True, slots=True)
class Configure(RunnerMessage):
    """The box's configuration, as ``RunnerConfig.parse`` reads it; the first message."""

    kind: ClassVar[str] = "configure"
    config: JsonObject


@dataclass(frozen=True, slots=True)
class MarkClean(RunnerMessage):
    """The present entries of shared directories belong to the world: no cleanup removes them."""

    kind: ClassVar[str] = "mark_clean"


@dataclass(frozen=True, slots=True)
class OpenInstance(RunnerMessage):
    """An instance begins; the control socket of its worker comes with this."""

    kind: ClassVar[str] = "open_instance"
    serial: int
    copy_of: int | None


@dataclass(frozen=True, slots=True)
class ReleaseInstance(RunnerMessage):
    """Kill and clean an instance; ``Cleaned`` with the same request number follows."""

    kind: ClassVar[str] = "release_instance"
    request: int
    serial: int


@dataclass(frozen=True, slots=True)
class ResetBox(RunnerMessage):
    """Kill and clean all instances; ``Cleaned`` with the same request number follows."""

    kind: ClassVar[str] = "reset_box"
    request: int


@dataclass(frozen=True, slots=True)
class Cleaned(RunnerMessage):
    """The end of a release or reset; ``left`` names what could not be killed or removed."""

    kind: ClassVar[str] = "cleaned"
    request: int
    left: list[str]


REQUESTS = Codec[Configure | MarkClean | OpenInstance | ReleaseInstance | ResetBox](
    Configure, MarkClean, OpenInstance, ReleaseInstance, ResetBox
)
REPLIES = Codec[Cleaned](Cleaned)
