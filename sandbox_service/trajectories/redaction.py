"""Redaction of exported episodes: what matches a pattern is replaced in all recorded texts.

Patterns apply to each text and number in requests, answers and create parameters, before a row is made of
them, so that all formats are redacted alike. A text that is JSON, such as the arguments of a tool call, or
has lines that are, is redacted as a whole and in each of its texts, which the JSON may write with escapes.
The format's own parts stay: names of JSON fields, roles, types and pictures; so do the ids, the environment
and the task of the episode.

Patterns run where the export runs. The package ``regex`` is used because its matching takes a time limit,
which ``re`` does not: a pattern that backtracks for ever ends the export with an error.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import regex

from sandbox_contract.images import image_urls

if TYPE_CHECKING:
    from pydantic import JsonValue

    from .reader import StoredInstance
    from .records import EventRecord


MARK = "[redacted]"
"""The text in place of what a pattern matches."""
MOST_S = 10.0
"""Seconds that a pattern may take for one text."""
_JSON_STARTS = ("{", "[", '"')
_OWN_WORDS = {
    "role": frozenset({"system", "user", "assistant", "tool"}),
    "type": frozenset({"function", "text", "output_text", "tool_use", "thinking", "redacted_thinking"})
    | {"object", "string", "integer", "number", "boolean", "array", "null"},
}
"""Values of fields that are words of the message format and of JSON Schema."""
_SURROGATE = regex.compile(r"[\ud800-\udfff]")


class RedactionError(Exception):
    """A pattern that cannot be used, or that takes too long; the text says which and why."""


class Redaction:
    """Patterns whose matches are removed from episodes."""

    def __init__(self, patterns: Iterable[str], most_s: float = MOST_S) -> None:
        """Compile the patterns. Raises RedactionError."""
        self._patterns = [_compiled(pattern) for pattern in patterns]
        self._most_s = most_s

    def of_episode(
        self, stored: StoredInstance, events: Sequence[EventRecord]
    ) -> tuple[StoredInstance, list[EventRecord]]:
        """Return an episode's records without what matches. Raises RedactionError."""
        record = replace(stored.record, params_json=self._body(stored.record.params_json))
        redacted = [
            replace(event, request=self._body(event.request), response=self._body(event.response))
            for event in events
        ]
        return replace(stored, record=record), redacted

    def _body(self, body: bytes) -> bytes:
        if not body:
            return body
        try:
            value = json.loads(body)
            if isinstance(value, dict | list | str):
                return json.dumps(self._value(value)).encode()
        except (ValueError, RecursionError):
            pass  # Not JSON, or nested deeper than any body that the service accepts.
        return self._file(body)

    def _file(self, body: bytes) -> bytes:
        """Redact a body that is not JSON: a file, of which every byte stays as it is but for what matches."""
        return self._text(body.decode(errors="surrogateescape")).encode(errors="surrogateescape")

    def _value(self, value: JsonValue, field: str = "") -> JsonValue:
        if isinstance(value, str):
            return value if value in _OWN_WORDS.get(field, ()) else self._text(value)
        if isinstance(value, list):
            pictures = image_urls(value) if field == "images" else ()
            return [each if each in pictures else self._value(each) for each in value]
        if isinstance(value, dict):
            return {name: self._value(each, name) for name, each in value.items()}
        if isinstance(value, int | float) and not isinstance(value, bool):
            written = json.dumps(value)
            return value if self._plain(written) == written else MARK
        return value

    def _text(self, text: str) -> str:
        unescaped = self._json_text(text)
        if unescaped is None and "\n" in text:
            lines = text.split("\n")
            text = "\n".join(self._json_text(line) or line for line in lines)
        return self._plain(unescaped or text)

    def _plain(self, text: str) -> str:
        """Redact a text as it is written."""
        for pattern in self._patterns:
            try:
                text = pattern.sub(_mark, text, timeout=self._most_s)
            except TimeoutError:
                problem = f"took longer than {self._most_s:g} s for a text of {len(text)} characters"
                raise RedactionError(
                    f"the pattern {pattern.pattern!r} {problem}; write it without nested repetitions"
                ) from None
        return text

    def _json_text(self, text: str) -> str | None:
        """Redact the texts within a text of JSON; without any match it stays as it is written.

        None stands for a text that is no JSON with texts in it.
        """
        if not text.lstrip().startswith(_JSON_STARTS):
            return None
        try:
            value = json.loads(text)
            redacted = self._value(value)
            if redacted == value:
                return text
            written = json.dumps(redacted, ensure_ascii=False)
        except (ValueError, RecursionError):
            return None
        # Half a surrogate pair that was written as an escape stays one: a file could not hold it.
        kept = frozenset(_SURROGATE.findall(text))
        safe: str = _SURROGATE.sub(
            lambda half: half[0] if half[0] in kept else f"\\u{ord(half[0]):04x}", written
        )
        return safe


def _mark(match: regex.Match[str]) -> str:
    """Return what replaces a match. Raises RedactionError for one without any text."""
    if match.start() == match.end():
        raise RedactionError(
            f"{match.re.pattern!r} matches a place without any text, which removes nothing; write what must "
            "go, such as sk-\\w+ for (?=sk-)"
        )
    return MARK


def _compiled(pattern: str) -> regex.Pattern[str]:
    try:
        compiled = regex.compile(pattern)
    except regex.error as error:
        raise RedactionError(f"{pattern!r} is not a regular expression: {error}") from None
    if compiled.search("") is not None:
        raise RedactionError(
            f"{pattern!r} matches the empty text; write what must be there, such as x+ for x*"
        )
    return compiled
