"""The order in which instances are listed."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from sandbox_service.supervisor.listing import Listing
from sandbox_service.trajectories.records import record_id

if TYPE_CHECKING:
    from collections.abc import Callable


def _calls(action: Callable[[], object]) -> int:
    """Calls of Python functions during an action."""
    count = 0

    def note(_frame: object, event: str, _argument: object) -> None:
        nonlocal count
        count += event == "call"

    sys.setprofile(note)
    try:
        action()
    finally:
        sys.setprofile(None)
    return count


def test_those_of_a_prefix_are_listed_in_pages_in_order_of_creation() -> None:
    listing = Listing()
    names = ["box.z", "other", "box.a", record_id("ada", "box.m"), "box", "boxes", "box.b"]
    for name in names:
        listing.add("ada", name)
        listing.add("bob", f"{name}-2")
    own = ["box.z", "box.a", record_id("ada", "box.m"), "box.b"]
    page, after = listing.page("ada", -1, 3, "box.")
    assert page == own[:3]
    assert after is not None
    assert listing.page("ada", after, 3, "box.") == (own[3:], None)
    assert listing.page("ada", -1, 9) == (names, None)
    assert listing.page("eve", -1, 9, "box.") == ([], None)


def test_what_was_removed_is_not_listed_and_may_come_again_at_the_end() -> None:
    listing = Listing()
    names = [f"box.{number}" for number in range(10)]
    for name in names:
        listing.add("ada", name)
    for name in names[:4]:
        listing.remove("ada", name)
    listing.add("ada", "box.0")
    assert listing.page("ada", -1, 20, "box.") == ([*names[4:], "box.0"], None)
    for name in [*names[4:9], "box.0"]:
        listing.remove("ada", name)
    assert listing.page("ada", -1, 20, "box.") == (["box.9"], None)
    listing.remove("ada", "box.9")
    assert listing.page("ada", -1, 20) == ([], None)


def test_a_prefix_is_found_without_a_look_at_each_instance() -> None:
    listing = Listing()
    for number in range(5000):
        listing.add("ada", record_id("ada", f"box-{number:04}.1"))
    page, _ = listing.page("ada", -1, 10, "box-4711.")
    assert page == [record_id("ada", "box-4711.1")]
    assert _calls(lambda: listing.page("ada", -1, 10, "box-4711.")) < 100
