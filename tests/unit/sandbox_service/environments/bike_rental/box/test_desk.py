"""The tools of the desk: prices, days that are taken, and what is refused because it does not fit."""

from datetime import date

import pytest

from sandbox_service.environments.bike_rental.box.desk import Desk, DeskError, euros
from sandbox_service.environments.bike_rental.box.rental_data import is_free, make_database, price_of
from sandbox_service.environments.bike_rental.box.tools import TOOLS, run_tool, tool_schemas


@pytest.fixture
def desk() -> Desk:
    return Desk(make_database("train"))


def booking_with(desk: Desk, status: str) -> str:
    return next(each["id"] for each in desk.database["bookings"].values() if each["status"] == status)


def test_the_price_is_the_discounted_bike_with_extras_and_insurance() -> None:
    wanted = {"days": 3, "extras": ["helmet", "lock"], "insurance": "basic"}
    parts = price_of({"day_rate": 2000}, wanted, "silver")
    assert parts == {"bike": 5400, "extras": 750, "insurance": 750, "total": 6900}
    assert euros(parts["total"]) == "69.00"


def test_a_booked_bike_is_taken_on_its_days_only(desk: Desk) -> None:
    customer = next(iter(desk.database["customers"]))
    bike = next(each["id"] for each in desk.database["bikes"].values() if each["in_service"])
    new = {"customer_id": customer, "bike_id": bike, "start": "2026-09-10", "days": 3}
    booked = run_tool(desk, "create_booking", new)
    assert booked["last_day"] == "2026-09-12"
    with pytest.raises(DeskError, match="taken"):
        run_tool(desk, "create_booking", {**new, "start": "2026-09-12", "days": 1})
    assert run_tool(desk, "create_booking", {**new, "start": "2026-09-13"})["id"] != booked["id"]
    run_tool(desk, "cancel_booking", {"booking_id": booked["id"], "refund_percent": 50})
    assert run_tool(desk, "create_booking", {**new, "start": "2026-09-11", "days": 2})["status"] == "booked"


def test_a_change_is_priced_again_and_counted(desk: Desk) -> None:
    before = desk.get_booking(booking_with(desk, "booked"))
    changed = run_tool(
        desk, "change_dates", {"booking_id": before["id"], "start": "2026-12-01", "days": before["days"] * 2}
    )
    assert float(changed["price"]) == pytest.approx(2 * float(before["price"]), abs=0.02)
    assert changed["date_changes"] == before["date_changes"] + 1


@pytest.mark.parametrize(
    ("start", "days"),
    [("soon", 1), ("2026-05-10", 1), ("2028-01-01", 1), ("2026-06-01", 0), ("2026-06-01", 61)],
)
def test_impossible_days_are_refused(desk: Desk, start: str, days: int) -> None:
    with pytest.raises(DeskError):
        run_tool(
            desk, "change_dates", {"booking_id": booking_with(desk, "booked"), "start": start, "days": days}
        )


@pytest.mark.parametrize("fee", [float("nan"), float("inf"), -1, 10**30])
def test_a_fee_is_an_amount(desk: Desk, fee: float) -> None:
    incident = {"booking_id": booking_with(desk, "picked_up"), "kind": "damage", "fee": fee}
    with pytest.raises(DeskError, match="fee"):
        run_tool(desk, "report_incident", incident)


def test_only_bookings_of_the_right_status_are_changed(desk: Desk) -> None:
    for name, status in (("cancel_booking", "returned"), ("give_voucher", "booked")):
        arguments = {"booking_id": booking_with(desk, status)}
        arguments |= {"refund_percent": 0} if name == "cancel_booking" else {}
        with pytest.raises(DeskError, match=f"is {status}, not"):
            run_tool(desk, name, arguments)


def test_no_two_live_bookings_of_a_generated_bike_overlap() -> None:
    for name in ("train", "validation", "test"):
        database = make_database(name)
        for booking in database["bookings"].values():
            if booking["status"] in ("booked", "picked_up"):
                start = date.fromisoformat(booking["start"])
                assert is_free(database, booking["bike"], start, booking["days"], booking["id"])


def test_every_tool_has_a_method_and_a_schema(desk: Desk) -> None:
    assert 10 <= len(TOOLS) <= 15
    assert [each["function"]["name"] for each in tool_schemas()] == list(TOOLS)
    assert all(callable(getattr(desk, name)) for name in TOOLS)
