"""Snapshots: the content of an object without a data form when it was sent, which no longer changes.

A solution may return an object of its own, and a test that looks at it twice would otherwise meet its code
twice. So the candidate's process sends what the object holds, once, and the grader gets a snapshot: truth,
text and items, all plain data. Standard library only.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from .codec import MAX_DEPTH, CodecError, decode, encode

if TYPE_CHECKING:
    from sandbox_service.wire.json_types import JsonObject

_MAX_SIZE = 4_000_000
"""Items and characters that the objects of one answer may hold."""
_MAX_TEXT = 1000


class NotLiveError(AttributeError):
    """A test uses a result as an object, and its task does not declare the result as live."""


class Freezer:
    """Writes the objects of one answer as data, in the candidate's process."""

    def __init__(self) -> None:
        self._left = _MAX_SIZE

    def freeze(self, value: object, depth: int = MAX_DEPTH) -> JsonObject:
        """Return the data form of an object's contents. Raises CodecError when it holds too much."""
        if isinstance(value, Iterator):
            return {"$": "iterator", "v": self._items(value, depth)}
        iterable = hasattr(type(value), "__iter__")
        items = self._items(value, depth) if iterable else None  # type: ignore[arg-type]
        return {"$": "object", "v": [bool(value), str(value)[:_MAX_TEXT], items]}

    def _items(self, values: Iterable[object], depth: int) -> list[Any]:
        items = []
        for value in values:
            item = encode(value, self.freeze, depth - 1)
            self._left -= _size(item)
            if self._left < 0:
                raise CodecError(f"the objects of an answer hold more than {_MAX_SIZE} items and characters")
            items.append(item)
        return items


def _size(data: object) -> int:
    if isinstance(data, str):
        return 1 + len(data)
    if isinstance(data, list):
        return 1 + sum(map(_size, data))
    if isinstance(data, dict):
        return _size(data.get("v"))
    return 1


def resolve(tag: object, content: Any, depth: int) -> object:  # noqa: ANN401 - JSON
    """Return the iterator or snapshot that ``freeze`` wrote. Raises CodecError for anything else."""
    if tag == "iterator" and isinstance(content, list):
        return iter([decode(item, resolve, depth - 1) for item in content])
    if tag == "object" and isinstance(content, list) and len(content) == 3:
        truth, text, items = content
        if isinstance(truth, bool) and isinstance(text, str) and isinstance(items, list | None):
            held = None if items is None else tuple(decode(item, resolve, depth - 1) for item in items)
            return Snapshot(truth, text, held)
    raise CodecError(f"no plain value has the tag {tag!r}")


class Snapshot:
    """An object of a solution, frozen. It equals nothing."""

    __slots__ = ("_items", "_text", "_truth")

    def __init__(self, truth: bool, text: str, items: tuple[object, ...] | None) -> None:
        self._truth = truth
        self._text = text
        self._items = items

    def _held(self) -> tuple[Any, ...]:
        if self._items is None:
            raise NotLiveError("the object holds no items")
        return self._items

    def __getattr__(self, name: str) -> object:
        raise NotLiveError(f"{name!r} was asked of a result that the task does not declare live")

    def __call__(self, *args: object, **kwargs: object) -> object:
        raise NotLiveError("a result was called that the task does not declare live")

    def __iter__(self) -> Iterator[Any]:
        return iter(self._held())

    def __len__(self) -> int:
        return len(self._held())

    def __getitem__(self, key: Any) -> Any:  # noqa: ANN401 - what a tuple takes and gives
        return self._held()[key]

    def __bool__(self) -> bool:
        return self._truth

    def __str__(self) -> str:
        return self._text

    __repr__ = __str__

    def __eq__(self, other: object) -> bool:
        return False

    def __hash__(self) -> int:
        return id(self)
