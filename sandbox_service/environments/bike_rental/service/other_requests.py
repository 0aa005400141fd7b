"""Requests about rented and returned bikes, memberships, and what is for the staff."""

from __future__ import annotations

from datetime import date, timedelta
from types import MappingProxyType
from typing import TYPE_CHECKING

from sandbox_service.environments.bike_rental.box.rental_data import MEMBERSHIPS, TODAY

from .wish import Wish, about, decline, settle

if TYPE_CHECKING:
    from .wish import Draw


_VOUCHER_DAYS = 14
_RAISED = MappingProxyType({"none": ("silver", "gold"), "silver": ("gold",), "gold": ()})
_FEES = MappingProxyType(
    {"puncture": {"none": 15, "basic": 0, "full": 0}, "damage": {"none": 80, "basic": 30, "full": 0}}
)
_TRANSFERS = MappingProxyType(
    {
        "theft": "My rented bike was stolen this morning.",
        "injury": "I fell with the rented bike and hurt my arm.",
        "invoice": "I do not agree with the last invoice.",
        "personal_data": "I have moved and need my postcode changed.",
    }
)


def incident(draw: Draw) -> Wish | None:
    """Report a puncture or a damage."""
    for booking in draw.bookings("picked_up"):
        kind = draw.rng.choice(tuple(_FEES))
        arguments = {"booking_id": booking["id"], "kind": kind, "fee": _FEES[kind][booking["insurance"]]}
        story = "has a flat tyre, a puncture" if kind == "puncture" else "is damaged: the frame is bent"
        reads = (("get_booking", {"booking_id": booking["id"]}),)
        wish = Wish(f"The bike that I am riding {story}.", (booking["id"],), about(booking), reads=reads)
        return settle(draw, wish, "report_incident", arguments, ("amount", "fee"))
    return None


def transfer(draw: Draw) -> Wish | None:
    """Ask for something that is for the staff."""
    reason = draw.rng.choice(tuple(_TRANSFERS))
    arguments = {"customer_id": draw.customer["id"], "reason": reason}
    wish = Wish(_TRANSFERS[reason])
    return settle(draw, wish, "transfer_to_staff", arguments, ("transfer", "transfer"))


def membership(draw: Draw) -> Wish | None:
    """Ask for a higher membership."""
    raised = _RAISED[draw.customer["membership"]]
    if not raised:
        return None
    wanted = draw.rng.choice(raised)
    arguments = {"customer_id": draw.customer["id"], "membership": wanted}
    wish = Wish(f"I would like to become a {wanted} member.", (wanted,))
    return settle(draw, wish, "set_membership", arguments, ("amount", "fee"))


def membership_declined(draw: Draw) -> Wish | None:
    """Ask for a lower membership while bookings are to come."""
    place = tuple(MEMBERSHIPS).index(draw.customer["membership"])
    if place == 0 or not draw.bookings("booked"):
        return None
    lower = draw.rng.choice(tuple(MEMBERSHIPS)[:place])
    return decline(draw, Wish(f"Please lower my membership to {lower}.", (lower,)), "downgrade")


def voucher(draw: Draw) -> Wish | None:
    """Ask for a voucher that is due."""
    return _voucher(draw, allowed=True)


def voucher_declined(draw: Draw) -> Wish | None:
    """Ask for a voucher that is not due."""
    return _voucher(draw, allowed=False)


def _voucher(draw: Draw, *, allowed: bool) -> Wish | None:
    for booking in draw.bookings("returned"):
        last_day = date.fromisoformat(booking["start"]) + timedelta(days=booking["days"] - 1)
        recent = (TODAY - last_day).days <= _VOUCHER_DAYS
        member = draw.customer["membership"] != "none"
        if (recent and member and not booking["voucher"]) != allowed:
            continue
        say = "I had to wait an hour to pick up a bike and want a voucher for that."
        reads = (("get_booking", {"booking_id": booking["id"]}),)
        wish = Wish(say, (booking["id"],), about(booking), reads=reads)
        if not allowed:
            return decline(draw, wish, "voucher")
        arguments = {"booking_id": booking["id"]}
        return settle(draw, wish, "give_voucher", arguments, ("amount", "amount"))
    return None
