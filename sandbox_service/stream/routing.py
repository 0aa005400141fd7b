"""Entries of a frame's ``meta`` by which gateway and supervisors agree on who answers a request."""

from __future__ import annotations

TAKE_OVER_FROM = "take_over_from"
"""In a request: the owner that the gateway does not reach, from which the instance or the create is to be
taken over; empty for an instance that no supervisor has."""
LAST_RESORT = "last_resort"
"""In such a request: every node has refused the instance, so that it may be recorded as lost."""
MOVED_FROM = "moved_from"
"""In a create: the supervisor that is responsible for it, and has passed it on to the one that is asked."""
OWNER = "owner"
"""In an error: the supervisor to ask instead, empty if none has the instance (``MovedError``)."""
NODE_FULL = "node_full"
"""In an error: there is no room on the node's own disk (``NodeFullError``)."""
RECORDED = "recorded"
"""In the status of an instance: it was read from the record, and who answers need not have the instance."""
