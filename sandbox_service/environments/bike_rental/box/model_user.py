"""A customer whose words come from a model, through whoever plays the episode.

The instance hands the conversation over: its observation is then addressed to the customer, and the next step
is the customer's message. The world only reads what the message means.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .scripted_user import ReplyKind, UserReply

if TYPE_CHECKING:
    from sandbox_service.wire.json_types import JsonObject

COUNTERPART = "user"
"""The name that messages of the customer have."""
_LEFT = "[DONE]"
_GREETING = "Hello, how can I help you?"
_INSTRUCTIONS = """\
You play a customer who writes to the service desk of a bike rental. The messages that you get are the \
desk's. Answer as the customer, in one or two sentences, and never as the desk.

About you: {facts}
What you want, one after another: {wishes}

Say what you want first. Tell details when you are asked for them, and only these. If you are asked whether \
to go ahead with something that you want, begin your answer with Yes; if it is not what you want, with No. \
Accept that something is not possible. When everything is settled, write only {left}."""


def opening(script: JsonObject) -> list[JsonObject]:
    """Return the messages with which the model's conversation begins."""
    facts = [fact["say"] for fact in script["facts"]]
    wishes = [" ".join([wish["say"], *(fact["say"] for fact in wish["facts"])]) for wish in script["wishes"]]
    prompt = _INSTRUCTIONS.format(facts=" ".join(facts), wishes=" Then: ".join(wishes), left=_LEFT)
    return [{"role": "system", "content": prompt}, {"role": "user", "content": _GREETING}]


def read_reply(text: str) -> UserReply:
    """Return what a message of the model means: consent if it begins with yes, the end if it says so."""
    if _LEFT in text:
        said = text.replace(_LEFT, "").strip() or "That is all. Goodbye."
        return UserReply(said, ReplyKind.END)
    first = text.strip().casefold().lstrip("*\"'“")
    agrees = first.startswith("yes") and not first[3:4].isalpha()
    return UserReply(text, ReplyKind.CONSENT if agrees else ReplyKind.FACTS)
