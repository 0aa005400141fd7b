"""The tools of the desk, on one database.

A tool checks that what it is given exists and fits together. Whether the policy allows it is the agent's
business: a tool does not refuse what only the policy forbids.
"""

from __future__ import annotations

from datetime import date, timedelta
from typing import TYPE_CHECKING

from .rental_data import (
    FIRST_BOOKING,
    MEMBERSHIP_FEES,
    TODAY,
    is_free,
    price_of,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sandbox_service.wire.json_types import JsonObject


VOUCHER = 1000
_MOST_DAYS = 60
_MOST_AHEAD = 365


class DeskError(Exception):
    """A tool cannot do what it was asked; the message says why, for the agent."""


def euros(cents: int) -> str:
    """Return an amount as the desk writes it, such as ``54.00``."""
    return f"{cents // 100}.{cents % 100:02d}"


class Desk:
    """One database, and who was verified in this conversation."""

    def __init__(self, database: JsonObject) -> None:
        self.database = database
        self.verified: set[str] = set()

    def verify_customer(self, email: str, postcode: str) -> JsonObject:
        """Find the customer with this e-mail address and postcode. Raises DeskError."""
        for customer in self.database["customers"].values():
            if customer["email"] == email.strip().lower() and customer["postcode"] == postcode.strip():
                self.verified.add(customer["id"])
                return {"customer_id": customer["id"]}
        raise DeskError("no customer has this e-mail address and this postcode")

    def get_customer(self, customer_id: str) -> JsonObject:
        customer = self._customer(customer_id)
        bookings = [
            each["id"] for each in self.database["bookings"].values() if each["customer"] == customer_id
        ]
        shown = {key: customer[key] for key in ("id", "name", "birth_year", "membership")}
        return {**shown, "unpaid": euros(customer["unpaid"]), "bookings": bookings}

    def get_booking(self, booking_id: str) -> JsonObject:
        return self._shown(self._booking(booking_id))

    def find_bikes(
        self, kind: str, station: str, start: str, days: int, size: str | None = None
    ) -> JsonObject:
        """List the bikes that are free on these days. Raises DeskError."""
        begins = self._start(start, days)
        found = [
            {**bike, "day_rate": euros(bike["day_rate"])}
            for bike in self.database["bikes"].values()
            if (bike["kind"], bike["station"]) == (kind, station)
            and size in (None, bike["size"])
            and bike["in_service"]
            and is_free(self.database, bike["id"], begins, days)
        ]
        return {"bikes": found}

    def quote(
        self, customer_id: str, bike_id: str, days: int, extras: Sequence[str] = (), insurance: str = "none"
    ) -> JsonObject:
        """Compute what a new booking would cost. Raises DeskError."""
        self._check_days(days)
        wanted = {"days": days, "extras": sorted(set(extras)), "insurance": insurance}
        parts = price_of(self._bike(bike_id), wanted, self._customer(customer_id)["membership"])
        return {name: euros(cents) for name, cents in parts.items()}

    def create_booking(
        self,
        customer_id: str,
        bike_id: str,
        start: str,
        days: int,
        extras: Sequence[str] = (),
        insurance: str = "none",
    ) -> JsonObject:
        customer, bike = self._customer(customer_id), self._bike(bike_id)
        begins = self._start(start, days)
        self._check_free(bike_id, begins, days)
        bookings = self.database["bookings"]
        booking = {
            "id": f"B-{FIRST_BOOKING + len(bookings)}",
            "customer": customer_id,
            "bike": bike_id,
            "start": begins.isoformat(),
            "days": days,
            "extras": sorted(set(extras)),
            "insurance": insurance,
            "status": "booked",
            "date_changes": 0,
            "refunded": 0,
            "voucher": False,
        }
        booking["price"] = price_of(bike, booking, customer["membership"])["total"]
        bookings[booking["id"]] = booking
        return self._shown(booking)

    def cancel_booking(self, booking_id: str, refund_percent: int) -> JsonObject:
        booking = self._with_status(booking_id, "booked")
        booking["status"] = "cancelled"
        booking["refunded"] = booking["price"] * refund_percent // 100
        return self._shown(booking)

    def change_dates(self, booking_id: str, start: str, days: int) -> JsonObject:
        booking = self._with_status(booking_id, "booked")
        begins = self._start(start, days)
        self._check_free(booking["bike"], begins, days, booking_id)
        booking.update(start=begins.isoformat(), days=days, date_changes=booking["date_changes"] + 1)
        return self._priced(booking)

    def change_bike(self, booking_id: str, bike_id: str) -> JsonObject:
        booking = self._with_status(booking_id, "booked")
        self._bike(bike_id)
        self._check_free(bike_id, date.fromisoformat(booking["start"]), booking["days"], booking_id)
        booking["bike"] = bike_id
        return self._priced(booking)

    def set_options(self, booking_id: str, extras: Sequence[str], insurance: str) -> JsonObject:
        booking = self._with_status(booking_id, "booked")
        booking.update(extras=sorted(set(extras)), insurance=insurance)
        return self._priced(booking)

    def report_incident(self, booking_id: str, kind: str, fee: float) -> JsonObject:
        booking = self._with_status(booking_id, "picked_up")
        if not 0 <= fee <= 1000:
            raise DeskError("a fee is an amount in euros from 0 to 1000")
        incident = {"booking": booking["id"], "kind": kind, "fee": round(fee * 100)}
        self.database["incidents"].append(incident)
        self.database["customers"][booking["customer"]]["unpaid"] += incident["fee"]
        return {**incident, "fee": euros(incident["fee"])}

    def set_membership(self, customer_id: str, membership: str) -> JsonObject:
        self._customer(customer_id)["membership"] = membership
        return {"membership": membership, "fee": euros(MEMBERSHIP_FEES[membership])}

    def give_voucher(self, booking_id: str) -> JsonObject:
        booking = self._with_status(booking_id, "returned")
        booking["voucher"] = True
        return {"booking": booking_id, "amount": euros(VOUCHER)}

    def record_refusal(self, customer_id: str, rule: str) -> JsonObject:
        self._customer(customer_id)
        self.database["refusals"].append({"customer": customer_id, "rule": rule})
        return {"recorded": rule}

    def transfer_to_staff(self, customer_id: str, reason: str) -> JsonObject:
        self._customer(customer_id)
        transfers = self.database["transfers"]
        transfers.append({"customer": customer_id, "reason": reason})
        # The number comes from the customer's, so that it cannot be told without the transfer.
        return {"transfer": f"T-{int(customer_id.removeprefix('C-')) * 7 + len(transfers)}"}

    def owner_of(self, arguments: JsonObject) -> str | None:
        """Return the customer whose data a call is about; None if it is about none that exists."""
        booking = self.database["bookings"].get(arguments.get("booking_id"))
        return booking["customer"] if booking else arguments.get("customer_id")

    def _customer(self, customer_id: str) -> JsonObject:
        return self._row("customers", customer_id)

    def _bike(self, bike_id: str) -> JsonObject:
        bike = self._row("bikes", bike_id)
        if not bike["in_service"]:
            raise DeskError(f"bike {bike_id} is being repaired")
        return bike

    def _booking(self, booking_id: str) -> JsonObject:
        return self._row("bookings", booking_id)

    def _row(self, table: str, row_id: str) -> JsonObject:
        try:
            row: JsonObject = self.database[table][row_id]
        except KeyError:
            raise DeskError(f"{table} has no {row_id[:40]!r}") from None
        return row

    def _with_status(self, booking_id: str, status: str) -> JsonObject:
        booking = self._booking(booking_id)
        if booking["status"] != status:
            raise DeskError(f"booking {booking_id} is {booking['status']}, not {status}")
        return booking

    def _start(self, start: str, days: int) -> date:
        try:
            begins = date.fromisoformat(start)
        except ValueError:
            raise DeskError(f"{start[:40]!r} is no date; write it as 2026-05-31") from None
        if not TODAY <= begins <= TODAY + timedelta(days=_MOST_AHEAD):
            raise DeskError("a rental starts today or within a year from today")
        self._check_days(days)
        return begins

    def _check_days(self, days: int) -> None:
        if not 1 <= days <= _MOST_DAYS:
            raise DeskError(f"days must be a number from 1 to {_MOST_DAYS}")

    def _check_free(self, bike_id: str, start: date, days: int, but: str | None = None) -> None:
        if not is_free(self.database, bike_id, start, days, but):
            raise DeskError(f"bike {bike_id} is taken on some of these days")

    def _priced(self, booking: JsonObject) -> JsonObject:
        membership = self._customer(booking["customer"])["membership"]
        booking["price"] = price_of(self.database["bikes"][booking["bike"]], booking, membership)["total"]
        return self._shown(booking)

    def _shown(self, booking: JsonObject) -> JsonObject:
        bike = self.database["bikes"][booking["bike"]]
        amounts = {name: euros(booking[name]) for name in ("price", "refunded")}
        last_day = date.fromisoformat(booking["start"]) + timedelta(days=booking["days"] - 1)
        about = {
            "last_day": last_day.isoformat(),
            "kind": bike["kind"],
            "size": bike["size"],
            "station": bike["station"],
        }
        return {**booking, **amounts, **about}
