"""Print tables that may have more columns than the terminal has room for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult


_EDGES = 1
_GAP = 3
"""Cells that a column takes beside its width, of padding and box."""


@dataclass(frozen=True, slots=True)
class _Column:
    head: str
    cells: tuple[str, ...]

    @property
    def on_one_line(self) -> int:
        """The width at which neither the head nor a cell is wrapped."""
        return max(map(cell_len, (self.head, *self.cells)))

    @property
    def longest_word(self) -> int:
        return max(cell_len(word) for text in (self.head, *self.cells) for word in text.split() or ("",))

    @property
    def with_whole_cells(self) -> int:
        """The width at which only the head is wrapped, between its words."""
        return max(map(cell_len, (*self.head.split(), *self.cells)))


class WideTable:
    """A table of a column of names and of columns of figures, in which words and figures stay whole.

    Where the terminal is too narrow for all columns, they are divided among tables below each other, each
    with the names. Where it is too narrow for one of them, the intervals in it are below their estimates.
    """

    def __init__(self, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
        cells = list(zip(*rows, strict=True)) or [()] * len(columns)
        self._names, *self._figures = [
            _Column(head, column) for head, column in zip(columns, cells, strict=True)
        ]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        width, names = options.max_width, self._names
        word = min(names.longest_word, width // 2)
        wider = min(names.on_one_line, max(word, width // 3))
        # Names on fewer lines, unless that needs another table.
        least, parts = min(
            ((each, list(self._parts(width - _EDGES - _GAP - each))) for each in (wider, word)),
            key=lambda choice: len(choice[1]),
        )
        for part in parts:
            yield _table((names, *part), [least, *(each.with_whole_cells for each in part)], width)

    def _parts(self, room: int) -> Iterator[list[_Column]]:
        """Yield the columns of figures that fit beside the names, at least one at a time."""
        part: list[_Column] = []
        left = room
        for column in self._figures:
            taken = column.with_whole_cells + _GAP
            if part and taken > left:
                yield part
                part, left = [], room
            part.append(column)
            left -= taken
        yield part


def _table(columns: Sequence[_Column], least: Sequence[int], width: int) -> Table:
    """Return a table of columns with at least these widths, if the terminal has room for them."""
    spare = width - _EDGES - sum(each + _GAP for each in least)
    table = Table(box=SIMPLE_HEAD)
    texts: list[list[Text]] = []
    for place, (column, needed) in enumerate(zip(columns, least, strict=True)):
        # Without room for all there are two columns, and the figures of the second are wrapped.
        more = min(column.on_one_line - needed, spare) if spare > 0 or place else 0
        spare -= more
        given = max(1, needed + more)
        table.add_column(column.head, justify="right" if place else "left", width=given, overflow="fold")
        texts.append([_text(cell, given) for cell in column.cells])
    for row in zip(*texts, strict=True):
        table.add_row(*row)
    return table


def _text(cell: str, width: int) -> Text:
    return Text(cell if cell_len(cell) <= width else cell.replace(" (", "\n("))
