"""A policy that acts at random in any environment: the baseline of every other policy.

It chooses one of the actions that the environment offers, or else calls a random tool with random arguments
of its schema. Sometimes, or if there is no tool, it writes a few words. The same seed and observations give
the same messages.
"""

from __future__ import annotations

import json
import re
from random import Random
from typing import TYPE_CHECKING

from sandbox_contract.messages import FunctionCall, Message, ToolCall

from .policies import Actor, ModelUsage, StatelessPolicy, View
from .random_arguments import random_value, random_words, words_of

if TYPE_CHECKING:
    from sandbox_contract.messages import Tool


_PLAIN = 0.1
"""Share of plain text if there are tools."""
_BLANK = re.compile(r"<[^<>\[\]]*>|(?<=\[)(?:your |the )?(?:query|keywords|words)(?=\])")
"""A placeholder in an offered action, as in ``search[<query>]``."""


class RandomPolicy(StatelessPolicy):
    """Makes actors with a random generator each."""

    def __init__(self, seed: int = 0) -> None:
        self._seed = seed

    def make_actor(self, task_id: str, seed: int) -> Actor:
        return _RandomActor(Random(f"{self._seed}/{seed}/{task_id}"))


class _RandomActor:
    def __init__(self, random: Random) -> None:
        self._random = random
        self._seen = 0
        self._words: dict[str, None] = {}
        self._calls = 0
        self.usage = ModelUsage()

    async def act(self, view: View) -> Message | None:
        for message in view.messages[self._seen :]:
            if message.role != "assistant":
                self._words.update(dict.fromkeys(words_of(message.content or "")))
        self._seen = len(view.messages)
        offered = view.info.get("available_actions")
        actions = [each for each in offered if isinstance(each, str)] if isinstance(offered, list) else []
        if actions:
            return _said(_BLANK.sub(lambda _: self._some_words(), self._random.choice(actions)))
        if view.tools and self._random.random() >= _PLAIN:
            return self._called(self._random.choice(view.tools))
        return _said(self._some_words())

    def _called(self, tool: Tool) -> Message:
        self._calls += 1
        value = random_value({"type": "object", **tool.function.parameters}, self._random, list(self._words))
        arguments = json.dumps(value, ensure_ascii=False)
        function = FunctionCall(name=tool.function.name, arguments=arguments)
        call = ToolCall(id=f"call_{self._calls}", function=function)
        return Message(role="assistant", content=None, tool_calls=(call,))

    def _some_words(self) -> str:
        return random_words(self._random, list(self._words))


def _said(text: str) -> Message:
    return Message(role="assistant", content=text)
