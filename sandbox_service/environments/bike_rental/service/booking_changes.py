"""Requests to change or cancel bookings that are not picked up yet."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from sandbox_service.environments.bike_rental.box.rental_data import (
    DAY_RATES,
    INSURANCES,
    SEAT_KINDS,
    SIZES,
    TODAY,
    notice_days,
)

from .wish import Wish, about, best_bike, decline, settle

if TYPE_CHECKING:
    from sandbox_service.wire.json_types import JsonObject

    from .wish import Draw


def cancel(draw: Draw) -> Wish | None:
    """Ask to cancel a booking."""
    for booking in draw.bookings("booked"):
        notice = notice_days(booking)
        partly = 100 if draw.customer["membership"] == "gold" else 50
        percent = 100 if notice >= 3 else partly if notice >= 1 else 0
        arguments = {"booking_id": booking["id"], "refund_percent": percent}
        wish = Wish(
            "I have to cancel a booking, whatever I get back for it.",
            (booking["id"],),
            about(booking),
            reads=_read(booking),
        )
        return settle(draw, wish, "cancel_booking", arguments, ("amount", "refunded"))
    return None


def change_dates(draw: Draw) -> Wish | None:
    """Ask for other dates that are fine."""
    return _change_dates(draw, None)


def change_dates_declined(draw: Draw) -> Wish | None:
    """Ask for other dates that the policy forbids."""
    return _change_dates(draw, draw.rng.choice(("unpaid_fees", "change_notice", "changed_before")))


def _change_dates(draw: Draw, rule: str | None) -> Wish | None:
    least = 1 if draw.customer["membership"] == "gold" else 2
    for booking in draw.bookings("booked"):
        forbidden = (
            "unpaid_fees"
            if draw.customer["unpaid"]
            else "change_notice"
            if notice_days(booking) < least
            else "changed_before"
            if booking["date_changes"]
            else None
        )
        start = TODAY + timedelta(days=draw.rng.randint(41, 80))
        if forbidden != rule:
            continue
        arguments = {"booking_id": booking["id"], "start": start.isoformat(), "days": draw.rng.randint(1, 7)}
        when = f"It should start on {arguments['start']} and last {arguments['days']} days."
        words = ("when", "date", "dates", "start", "days", "how long", "new")
        wish = Wish(
            "I need other dates for a booking.",
            (booking["id"], arguments["start"]),
            (*about(booking), (when, words)),
            reads=_read(booking),
        )
        if rule is not None:
            return decline(draw, wish, rule)
        return settle(draw, wish, "change_dates", arguments, ("amount", "price"))
    return None


def change_bike(draw: Draw) -> Wish | None:
    """Ask for a bike of another size."""
    if draw.customer["unpaid"]:
        return None
    for booking in draw.bookings("booked"):
        bike = draw.bike(booking)
        size = draw.rng.choice([each for each in SIZES if each != bike["size"]])
        search = {"kind": bike["kind"], "station": bike["station"], "size": size}
        search |= {"start": booking["start"], "days": booking["days"]}
        found = draw.run("find_bikes", search)["bikes"]
        if not found:
            continue
        arguments = {"booking_id": booking["id"], "bike_id": best_bike(found)}
        wish = Wish(
            "The bike that I booked has the wrong size.",
            (booking["id"], arguments["bike_id"]),
            (*about(booking), (f"I need size {size}.", ("size", "tall", "height", "bike"))),
            reads=(*_read(booking), ("find_bikes", search)),
        )
        return settle(draw, wish, "change_bike", arguments, ("amount", "price"))
    return None


def change_bike_declined(draw: Draw) -> Wish | None:
    """Ask for a bike of another kind."""
    for booking in draw.bookings("booked"):
        kind = draw.rng.choice([each for each in DAY_RATES if each != draw.bike(booking)["kind"]])
        say = f"I would rather have a bike of the kind {kind} for a booking of mine."
        wish = Wish(say, (booking["id"],), about(booking), reads=_read(booking))
        return decline(draw, wish, "unpaid_fees" if draw.customer["unpaid"] else "other_kind")
    return None


def options(draw: Draw) -> Wish | None:
    """Ask for other extras and more insurance."""
    if draw.customer["unpaid"]:
        return None
    for booking in draw.bookings("booked"):
        higher = _covers(booking, higher=True)
        added = draw.rng.choice(
            [each for each in ("helmet", "lock", "panniers") if each not in booking["extras"]]
        )
        removed = draw.rng.choice(booking["extras"]) if booking["extras"] else None
        insurance = draw.rng.choice(higher) if higher and draw.rng.random() < 0.5 else booking["insurance"]
        extras = sorted({*booking["extras"], added} - {removed})
        wants = [f"Please add this extra: {added}."]
        wants += [f"Remove this extra: {removed}."] if removed else []
        wants += [f"Raise the insurance to {insurance}."] if insurance != booking["insurance"] else []
        arguments = {"booking_id": booking["id"], "extras": extras, "insurance": insurance}
        return settle(draw, _options(booking, wants), "set_options", arguments, ("amount", "price"))
    return None


def options_declined(draw: Draw) -> Wish | None:
    """Ask for options that the policy forbids."""
    rule = "unpaid_fees" if draw.customer["unpaid"] else draw.rng.choice(("child_seat", "lower_insurance"))
    for booking in draw.bookings("booked"):
        lower = _covers(booking, higher=False)
        want = "Please add a child seat."
        if rule == "child_seat" and draw.bike(booking)["kind"] in SEAT_KINDS:
            continue
        if rule == "lower_insurance":
            if not lower:
                continue
            want = f"Please lower the insurance to {draw.rng.choice(lower)}."
        return decline(draw, _options(booking, [want]), rule)
    return None


def _options(booking: JsonObject, wants: list[str]) -> Wish:
    words = ("options", "extras", "what", "which", "insurance")
    facts = (*about(booking), (" ".join(wants), words))
    return Wish("I want to change the options of a booking.", (booking["id"],), facts, reads=_read(booking))


def _read(booking: JsonObject) -> tuple[tuple[str, JsonObject], ...]:
    return (("get_booking", {"booking_id": booking["id"]}),)


def _covers(booking: JsonObject, *, higher: bool) -> list[str]:
    """Return the insurances above or below that of a booking."""
    names = list(INSURANCES)
    place = names.index(booking["insurance"])
    return names[place + 1 :] if higher else names[:place]
