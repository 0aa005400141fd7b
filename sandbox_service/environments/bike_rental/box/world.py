"""The service desk of a bike rental: one conversation, the database that it changes, and its grade."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from sandbox_service.environments.shared.box.call_answers import answered
from sandbox_service.environments.shared.box.calls import MOST_CALLS, parse_calls, plain_text
from sandbox_service.environments.shared.box.parameters import unknown_parameter
from sandbox_service.runner.world import JsonObject, Outcome, Start, Verdict, World, WorldError, wants_sparse
from sandbox_service.wire.codes import BoxErrorCode

from . import model_user
from .desk import Desk, DeskError
from .grading import grade
from .policy import system_prompt
from .rental_data import make_database
from .scripted_user import ReplyKind, ScriptedUser, UserReply
from .tools import TOOLS, run_tool, tool_schemas

if TYPE_CHECKING:
    from sandbox_service.environments.shared.box.calls import ParsedCall

USERS = ("scripted", "solo", "model")
_TOO_MANY = f"Error: not run: a message may hold at most {MOST_CALLS} calls."
_CLOSED = "The ticket is closed."
_MOST_TOLD = 20_000
"""Characters of a message to the customer that are graded."""


class BikeRentalWorld(World):
    """One conversation. The task has ``database``, ``script`` (of the customer), ``ticket`` and ``user``."""

    def start(self) -> Start:
        self.user = self._chosen_user()
        self.desk = Desk(make_database(self.task["database"]))
        self.script = ScriptedUser(self.task["script"])
        self.told: list[str] = []
        self.broken: set[str] = set()
        self.consented = self.user == "solo"
        self.waits_for_user = False
        info = {key: self.task[key] for key in ("category", "difficulty", "max_steps")} | {"user": self.user}
        info["texts"] = "last" if self.user == "solo" else "dialogue"
        if self.user == "model":
            self.waits_for_user = True
            info["awaits"] = model_user.COUNTERPART
            return Start(model_user.opening(self.task["script"]), tool_schemas(), info)
        said = self.task["ticket"] if self.user == "solo" else self.script.open()
        return Start(self._opening(said), tool_schemas(), info)

    def _chosen_user(self) -> str:
        unknown = sorted(set(self.context.params) - {"user"})
        if unknown:
            raise WorldError(unknown_parameter(unknown[0], ("user",)), BoxErrorCode.INVALID_REQUEST)
        user = self.context.params.get("user", self.task["user"])
        if user not in USERS:
            detail = f"the parameter user is one of: {', '.join(USERS)}"
            raise WorldError(detail, BoxErrorCode.INVALID_REQUEST)
        return str(user)

    def _opening(self, said: str) -> list[JsonObject]:
        prompt = system_prompt(customer=self.user != "solo")
        return [{"role": "system", "content": prompt}, {"role": "user", "content": said}]

    def step(self, message: JsonObject, timeout_s: float) -> Outcome:
        self._check_speaker(message)
        if self.waits_for_user:
            return self._hear(message)
        calls = parse_calls(message)
        if not calls:
            return self._tell(plain_text(message.get("content")))
        results = [self._run(call, number) for number, call in enumerate(calls)]
        reports = [{"name": call.name, "succeeded": ok} for call, (_, ok) in zip(calls, results, strict=True)]
        return Outcome(answered(calls, [text for text, _ in results]), info={"calls": reports})

    def _check_speaker(self, message: JsonObject) -> None:
        """Refuse a message of the wrong speaker: a mistake of whoever plays, which no model can make."""
        named = message.get("name") == model_user.COUNTERPART
        if named != self.waits_for_user:
            awaited = f"of {model_user.COUNTERPART!r}" if self.waits_for_user else "of the agent"
            detail = (
                f"the instance waits for a message {awaited}: a message whose name is "
                f"{model_user.COUNTERPART!r} is the customer's, all others are the agent's"
            )
            raise WorldError(detail, BoxErrorCode.INVALID_REQUEST)

    def _run(self, call: ParsedCall, number: int) -> tuple[str, bool]:
        """Run a call; return the answer, and whether it succeeded."""
        if number >= MOST_CALLS:
            return _TOO_MANY, False
        if call.problem is not None:
            return f"Error: {call.problem}", False
        try:
            result = run_tool(self.desk, call.name, call.arguments)
        except DeskError as error:
            return f"Error: {error}", False
        self._note_broken_rules(call)
        return json.dumps(result), True

    def _note_broken_rules(self, call: ParsedCall) -> None:
        owner = self.desk.owner_of(call.arguments)
        if owner is not None and owner not in self.desk.verified:
            self.broken.add("identity")
        if TOOLS[call.name].needs_consent and not self.consented:
            self.broken.add("consent")

    def _tell(self, text: str) -> Outcome:
        """Give a message to the customer."""
        self.told.append(text[:_MOST_TOLD])
        if self.user == "solo":
            return Outcome([{"role": "user", "content": _CLOSED}], terminated=True)
        self.consented = False
        if self.user == "scripted":
            return self._answer(self.script.reply(text))
        self.waits_for_user = True
        said = {"role": "user", "content": text or "(The desk says nothing.)"}
        return Outcome([said], info={"awaits": model_user.COUNTERPART})

    def _hear(self, message: JsonObject) -> Outcome:
        """Take the customer's message from a model."""
        text = plain_text(message.get("content")).strip()
        if not text:
            raise WorldError("the customer's message has no text", BoxErrorCode.INVALID_REQUEST)
        reply = model_user.read_reply(text)
        if not self.told and reply.kind is ReplyKind.END:
            raise WorldError("the customer left without a request", BoxErrorCode.INVALID_REQUEST)
        self.waits_for_user = False
        outcome = self._answer(reply)
        return outcome if self.told else Outcome(self._opening(text), info=outcome.info)

    def _answer(self, reply: UserReply) -> Outcome:
        """Give the customer's reply to the agent."""
        self.consented = reply.kind is ReplyKind.CONSENT
        said = [{"role": "user", "content": reply.text}]
        return Outcome(said, terminated=reply.kind is ReplyKind.END, info={"reply": reply.kind.value})

    def evaluate(self, params: JsonObject, grading: JsonObject) -> Verdict:
        wants_sparse(params)
        graded = grade(self.desk.database, self.task["database"], self.told, grading)
        solved = graded.database and graded.facts_told == graded.facts and not self.broken
        details: JsonObject = {
            "database": graded.database,
            "facts": graded.facts,
            "facts_told": graded.facts_told,
            "broken_rules": sorted(self.broken),
        }
        return Verdict(float(solved), solved, details)


def warm(data: str | None) -> None:
    """Generate the data before workers are forked."""
    for name in ("train", "validation", "test"):
        make_database(name)


WORLD = BikeRentalWorld
