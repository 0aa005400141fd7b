"""The requests that customers make, by category."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from . import booking_changes, new_bookings, other_requests

if TYPE_CHECKING:
    from .wish import Draw, Wish

WISHES: Mapping[str, Callable[[Draw], Wish | None]] = MappingProxyType(
    {
        "book": new_bookings.book,
        "book_declined": new_bookings.book_declined,
        "cancel": booking_changes.cancel,
        "change_bike": booking_changes.change_bike,
        "change_bike_declined": booking_changes.change_bike_declined,
        "change_dates": booking_changes.change_dates,
        "change_dates_declined": booking_changes.change_dates_declined,
        "incident": other_requests.incident,
        "membership": other_requests.membership,
        "membership_declined": other_requests.membership_declined,
        "options": booking_changes.options,
        "options_declined": booking_changes.options_declined,
        "transfer": other_requests.transfer,
        "voucher": other_requests.voucher,
        "voucher_declined": other_requests.voucher_declined,
    }
)
