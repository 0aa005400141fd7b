"""Schemas of the desk's tools, and the calls that models make of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING

from .desk import Desk, DeskError
from .policy import REASONS, RULES
from .rental_data import DAY_RATES, EXTRAS, INSURANCES, MEMBERSHIPS, SIZES, STATIONS

if TYPE_CHECKING:
    from sandbox_service.wire.json_types import JsonObject

_TEXT: JsonObject = {"type": "string"}
_CUSTOMER: JsonObject = {"type": "string", "description": "A customer, such as C-1001."}
_BOOKING: JsonObject = {"type": "string", "description": "A booking, such as B-2001."}
_BIKE: JsonObject = {"type": "string", "description": "A bike, such as K-101."}
_START: JsonObject = {"type": "string", "description": "The first day, such as 2026-05-31."}
_DAYS: JsonObject = {"type": "integer", "description": "The number of days."}
_EXTRAS: JsonObject = {"type": "array", "items": {"type": "string", "enum": sorted(EXTRAS)}}
_INSURANCE: JsonObject = {"type": "string", "enum": list(INSURANCES)}


def _one_of(*values: object) -> JsonObject:
    return {"type": "integer" if isinstance(values[0], int) else "string", "enum": list(values)}


@dataclass(frozen=True, slots=True)
class DeskTool:
    """One tool: a method of the desk, and its schema."""

    description: str
    required: Mapping[str, JsonObject]
    optional: Mapping[str, JsonObject] = field(default_factory=dict)
    writes: bool = False
    """It changes the database."""
    needs_consent: bool = False
    """The policy wants the customer's yes before it."""


_NEW_BOOKING = {"customer_id": _CUSTOMER, "bike_id": _BIKE, "start": _START, "days": _DAYS}
_OPTIONS = {"extras": _EXTRAS, "insurance": _INSURANCE}


def _change(description: str, **required: JsonObject) -> DeskTool:
    return DeskTool(description, required, writes=True, needs_consent=True)


TOOLS: Mapping[str, DeskTool] = MappingProxyType(
    {
        "verify_customer": DeskTool(
            "Verify a customer; return the customer's number.", {"email": _TEXT, "postcode": _TEXT}
        ),
        "get_customer": DeskTool(
            "Show a customer: membership, unpaid fees, numbers of bookings.", {"customer_id": _CUSTOMER}
        ),
        "get_booking": DeskTool("Show a booking.", {"booking_id": _BOOKING}),
        "find_bikes": DeskTool(
            "List the bikes of a kind at a station that are free on all of these days.",
            {"kind": _one_of(*DAY_RATES), "station": _one_of(*STATIONS), "start": _START, "days": _DAYS},
            {"size": _one_of(*SIZES)},
        ),
        "quote": DeskTool(
            "Compute the price of a new booking, with the customer's discount.",
            {"customer_id": _CUSTOMER, "bike_id": _BIKE, "days": _DAYS},
            _OPTIONS,
        ),
        "create_booking": DeskTool("Book a bike.", _NEW_BOOKING, _OPTIONS, writes=True, needs_consent=True),
        "cancel_booking": _change(
            "Cancel a booking and refund a part of its price.",
            booking_id=_BOOKING,
            refund_percent=_one_of(0, 50, 100),
        ),
        "change_dates": _change(
            "Move a booking to other days.", booking_id=_BOOKING, start=_START, days=_DAYS
        ),
        "change_bike": _change("Move a booking to another bike.", booking_id=_BOOKING, bike_id=_BIKE),
        "set_options": _change(
            "Replace the extras and the insurance of a booking.",
            booking_id=_BOOKING,
            extras=_EXTRAS,
            insurance=_INSURANCE,
        ),
        "report_incident": _change(
            "Report an incident with a rented bike and charge its fee, in euros.",
            booking_id=_BOOKING,
            kind=_one_of("puncture", "damage"),
            fee={"type": "number"},
        ),
        "set_membership": _change(
            "Set a customer's membership and charge its fee.",
            customer_id=_CUSTOMER,
            membership=_one_of(*MEMBERSHIPS),
        ),
        "give_voucher": _change("Give a voucher for a returned booking.", booking_id=_BOOKING),
        "record_refusal": DeskTool(
            "Record that a request was declined, and the rule that forbids it.",
            {"customer_id": _CUSTOMER, "rule": _one_of(*RULES)},
            writes=True,
        ),
        "transfer_to_staff": DeskTool(
            "Transfer a customer to the staff; return the number of the transfer.",
            {"customer_id": _CUSTOMER, "reason": _one_of(*REASONS)},
            writes=True,
        ),
    }
)


def tool_schemas() -> list[JsonObject]:
    """Return the tools in OpenAI's form."""
    return [{"type": "function", "function": _function(name, tool)} for name, tool in TOOLS.items()]


def _function(name: str, tool: DeskTool) -> JsonObject:
    parameters = {
        "type": "object",
        "properties": {**tool.required, **tool.optional},
        "required": list(tool.required),
        "additionalProperties": False,
    }
    return {"name": name, "description": tool.description, "parameters": parameters}


def run_tool(desk: Desk, name: str, arguments: JsonObject) -> JsonObject:
    """Run a tool and return its result. Raises DeskError for what it cannot do."""
    tool = TOOLS.get(name)
    if tool is None:
        raise DeskError(f"there is no tool {name[:64]!r}; there are: {', '.join(TOOLS)}")
    known = {**tool.required, **tool.optional}
    for argument in arguments:
        if argument not in known:
            raise DeskError(f"{name} has no argument {argument[:64]!r}; it takes: {', '.join(known)}")
    for argument in tool.required:
        if argument not in arguments:
            raise DeskError(f"{name} needs the argument {argument!r}")
    for argument, value in arguments.items():
        problem = _problem_of(known[argument], value)
        if problem is not None:
            raise DeskError(f"{argument} {problem}")
    result: JsonObject = getattr(desk, name)(**arguments)
    return result


def _problem_of(schema: JsonObject, value: object) -> str | None:
    """Return what is wrong with an argument; None if it fits its schema."""
    match schema["type"]:
        case "string" if not isinstance(value, str):
            return "must be a string"
        case "integer" if not isinstance(value, int) or isinstance(value, bool):
            return "must be an integer"
        case "number" if not isinstance(value, int | float) or isinstance(value, bool):
            return "must be a number"
        case "array":
            if not isinstance(value, list):
                return "must be a list"
            return next((found for each in value if (found := _problem_of(schema["items"], each))), None)
    if "enum" in schema and value not in schema["enum"]:
        return f"must be one of: {', '.join(map(str, schema['enum']))}"
    return None
