"""The messages and tools of an episode, and the part of them that an actor sees."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from sandbox_contract.frames import ConversationFrame, frame_after, opening_frame

from .policies import View

if TYPE_CHECKING:
    from sandbox_contract.base import JsonObject
    from sandbox_contract.episodes import StepResult
    from sandbox_contract.messages import Message, Tool


class EpisodeConversation:
    """The messages of one episode in order."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.frames: list[ConversationFrame] = [opening_frame(())]
        """Sessions and sets of tools, in order."""
        self.rewards: list[float] = []
        self._info: JsonObject = {}
        self.stop = "policy"
        """The end of the episode as the environment reported it; ``policy`` while it goes on."""
        self.understood: bool | None = None
        """Whether the last step held an action that the environment understood; None if it does not say."""

    @property
    def steps(self) -> int:
        """Steps of the agent; messages of a counterpart are none."""
        return len(self.rewards)

    def open(self, messages: Iterable[Message], tools: tuple[Tool, ...], info: JsonObject) -> None:
        """Add the first observation."""
        self.messages.extend(messages)
        self.frames = [opening_frame(tools)]
        self._info = info

    def add_action(self, message: Message) -> None:
        """Add the assistant's message."""
        self.messages.append(message)

    def add_observation(self, result: StepResult) -> None:
        """Add the result of a step.

        Tools in its info replace the earlier ones. After the start of a new session, earlier messages are no
        longer in view.
        """
        frame = frame_after(self.frames[-1], result.info, len(self.messages))
        if frame is not None:
            self.frames.append(frame)
        self.messages.extend(result.observation.messages)
        self.rewards.append(result.reward)
        self._info = result.info
        self.understood = _understood(result.info)
        if result.terminated or result.truncated:
            self.stop = "terminated" if result.terminated else "truncated"

    def view(self) -> View:
        """Return what an actor sees now."""
        frame = self.frames[-1]
        return View(tuple(self.messages[frame.first :]), frame.tools, self._info)


def _understood(info: JsonObject) -> bool | None:
    actions = info.get("actions", info.get("calls"))
    if not isinstance(actions, list):
        return None
    read = [isinstance(action, dict) and bool(action.get("tool") or action.get("name")) for action in actions]
    return bool(read) and all(read)
