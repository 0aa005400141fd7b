"""Remember which supervisors took instances over, so that their calls need not look for them again."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

from sandbox_service.stream.routing import RECORDED
from sandbox_service.wire.frames import Op

from .placement import creator_of

if TYPE_CHECKING:
    from sandbox_service.wire.frames import Frame


class NewOwners:
    """The supervisors that have instances of others, as one gateway last saw it.

    It may be wrong or incomplete at any time: a supervisor that no longer has an instance says so, and the
    gateway looks for it then.
    """

    def __init__(self, most: int = 65_536) -> None:
        self._most = most
        self._names: OrderedDict[str, str] = OrderedDict()

    def owner(self, instance_id: str) -> str | None:
        """Return the supervisor that has the instance, or else the one that its id names, if it names one."""
        return self._names.get(instance_id) or creator_of(instance_id)

    def note(self, instance_id: str, name: str) -> None:
        """Remember that a supervisor answered for the instance; the oldest entries give way."""
        self.forget(instance_id)
        if name != creator_of(instance_id):
            self._names[instance_id] = name
            if len(self._names) > self._most:
                self._names.popitem(last=False)

    def note_answer(self, frame: Frame, name: str, reply: Frame) -> None:
        """Remember who answered for an instance that went from one supervisor to another.

        The id of a new instance names its supervisor. One that reads a record need not have the instance.
        """
        if reply.op is Op.REPLY and frame.instance_id and not reply.meta.get(RECORDED):
            self.note(frame.instance_id, name)

    def forget(self, instance_id: str) -> None:
        """Forget an instance that has ended."""
        self._names.pop(instance_id, None)
