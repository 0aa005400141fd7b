"""Assistant messages that solve a task, with a customer to talk to and without."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sandbox_service.environments.shared.service.reference_messages import several_calls

if TYPE_CHECKING:
    from pydantic import JsonValue

    from .generator import RentalTask
    from .wish import Wish

_DECLINED = "I am sorry, that is not possible."
_MORE = "Is there anything else?"


class _Messages:
    """Assistant messages in order; calls are numbered."""

    def __init__(self) -> None:
        self.messages: list[dict[str, JsonValue]] = []

    def add_text(self, text: str) -> None:
        self.messages.append({"role": "assistant", "content": text})

    def add_calls(self, *calls: tuple[str, dict[str, Any]]) -> None:
        self.messages.append(several_calls(len(self.messages), calls))


def reference_messages(task: RentalTask, *, customer: bool) -> list[dict[str, JsonValue]]:
    """Return the solution of a task; ``customer`` says whether there is one to talk to."""
    written = _Messages()
    if customer:
        written.add_text("Welcome. What are your e-mail address and your postcode?")
    known = {"email": task.customer["email"], "postcode": task.customer["postcode"]}
    written.add_calls(("verify_customer", known))
    written.add_calls(("get_customer", {"customer_id": task.customer["id"]}))
    replies = []
    for wish in task.wishes:
        if wish.reads:
            written.add_calls(*wish.reads)
        if customer and not _is_free_of_consent(wish):
            written.add_text(f"Shall I go ahead with this: {', '.join(wish.values)}?")
        written.add_calls(*wish.calls)
        reply = _reply(wish)
        replies.append(reply)
        if customer:
            written.add_text(f"{reply} {_MORE}")
    if not customer:
        written.add_text(" ".join(replies))
    return written.messages


def _is_free_of_consent(wish: Wish) -> bool:
    return wish.calls[0][0] in ("record_refusal", "transfer_to_staff")


def _reply(wish: Wish) -> str:
    told = ", ".join(value for _, value in wish.told)
    done = _DECLINED if wish.calls[0][0] == "record_refusal" else "It is done."
    return f"{done} For you: {told}." if told else done
