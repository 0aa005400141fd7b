"""What was said in an episode, and the tools that there are: the view that an actor acts on."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from pydantic import TypeAdapter, ValidationError

from sandbox_contract.messages import Message, Tool

from .policies import View

if TYPE_CHECKING:
    from sandbox_contract.base import JsonObject
    from sandbox_contract.episodes import StepResult


_TOOLS = TypeAdapter(tuple[Tool, ...])


class Conversation:
    """One episode's messages in order."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.tools: tuple[Tool, ...] = ()
        self.rewards: list[float] = []
        self._info: JsonObject = {}
        self._session = 0

    def begin(self, messages: Iterable[Message], tools: tuple[Tool, ...], info: JsonObject) -> None:
        """The opening."""
        self.messages.extend(messages)
        self.tools = tools
        self._info = info

    def act(self, message: Message) -> None:
        """The assistant spoke."""
        self.messages.append(message)

    def answer(self, result: StepResult) -> None:
        """The environment answered.

        Tools that it names in its info replace those that there were; where it begins a new session, what
        was said before is no longer in view.
        """
        if result.info.get("new_session") is True:
            self._session = len(self.messages)
        self.messages.extend(result.observation.messages)
        self.rewards.append(result.reward)
        self._info = result.info
        if "tools" in result.info:
            try:
                self.tools = _TOOLS.validate_python(result.info["tools"])
            except ValidationError:
                # An environment's info is its own: this one means something else by the word.
                return

    def view(self) -> View:
        """What an actor sees now."""
        return View(tuple(self.messages[self._session :]), self.tools, self._info)
