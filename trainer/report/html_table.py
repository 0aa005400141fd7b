"""HTML tables of text cells."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape


def html_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table with a line for each row; all cells are escaped."""
    head = "".join(f"<th>{escape(column)}</th>" for column in columns)
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in cells) + "</tr>" for cells in rows)
    return f'<div class="wide"><table class="runs"><tr>{head}</tr>{body}</table></div>'
