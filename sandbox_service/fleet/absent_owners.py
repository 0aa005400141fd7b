"""Remember owners that a refresh of the fleet did not find, so that not every call refreshes it for them."""

from __future__ import annotations

from collections import OrderedDict


class AbsentOwners:
    """The times of the last refreshes for owners that are not in the fleet, as one gateway made them.

    Names come from the ids that clients send, so only the latest are remembered.
    """

    def __init__(self, pause_s: float = 5.0, most: int = 1024) -> None:
        self._pause_s = pause_s
        self._most = most
        self._refreshed_at: OrderedDict[str, float] = OrderedDict()

    def begin_refresh(self, name: str, now: float) -> bool:
        """Return whether to refresh the fleet for an owner, and note it; at most once in each pause."""
        last = self._refreshed_at.get(name)
        if last is not None and now < last + self._pause_s:
            return False
        self._refreshed_at[name] = now
        self._refreshed_at.move_to_end(name)
        if len(self._refreshed_at) > self._most:
            self._refreshed_at.popitem(last=False)
        return True
