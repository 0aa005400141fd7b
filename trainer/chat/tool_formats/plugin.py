"""A tool format of another package, guarded: what it raises names it and ends the run with a clear error."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, TypeVar

from sandbox_contract.messages import Message
from sandbox_plugins import PluginGroup
from trainer.error_text import error_text
from trainer.plugins import rejected

if TYPE_CHECKING:
    from sandbox_contract.messages import Tool

    from .base import ToolFormat

Found = TypeVar("Found", str, Message)


class PluginFormat:
    """Implements ``ToolFormat`` with another one. Raises PluginRejected where that one fails."""

    def __init__(self, name: str, form: ToolFormat) -> None:
        self._name = name
        self._form = form

    def parse(self, text: str, first: int = 0, tools: Sequence[Tool] = ()) -> Message:
        return self._checked("parse", Message, lambda: self._form.parse(text, first, tools))

    def render(self, message: Message) -> str:
        return self._checked("render", str, lambda: self._form.render(message))

    def describe_tools(self, tools: Iterable[Tool]) -> str:
        return self._checked("describe_tools", str, lambda: self._form.describe_tools(tools))

    def _checked(self, method: str, kind: type[Found], call: Callable[[], Found]) -> Found:
        try:
            found = call()
        except Exception as error:
            cause = f"{method} raised {error_text(error)}; what it cannot read must stay text"
            raise rejected(PluginGroup.TOOL_FORMATS, self._name, cause) from error
        if not isinstance(found, kind):
            cause = f"{method} returned {type(found).__name__}, not {kind.__name__}"
            raise rejected(PluginGroup.TOOL_FORMATS, self._name, cause)
        return found
