"""``/`` and ``/docs``: a short description of the service, and its OpenAPI document as one static page.

FastAPI's own page loads scripts from a CDN, which training machines often cannot reach.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from html import escape
from itertools import groupby
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter
from fastapi.responses import HTMLResponse, JSONResponse

if TYPE_CHECKING:
    from .openapi import OpenApi

OPEN_PAGES = ("/", "/docs")

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 60rem; padding: 0 1rem; }
code, summary b { font-family: ui-monospace, monospace; font-size: .92em; }
details { border-top: 1px solid #8884; padding: .3rem 0; } summary { cursor: pointer; }
table { border-collapse: collapse; width: 100%; }
td { border-top: 1px solid #8884; padding: .2rem .6rem .2rem 0; vertical-align: top; }
td { overflow-wrap: anywhere; }
h2 { margin-top: 2rem; } h4 { margin: .6rem 0 .2rem; }
@media (prefers-color-scheme: dark) { body { background: #111; color: #ddd; } a { color: #8bf; } }
"""


class ReferencePages:
    """Handlers of the two pages; ``document`` is called when the OpenAPI document is first needed."""

    def __init__(self, document: Callable[[], OpenApi]) -> None:
        self._document = document
        self._page: str | None = None

    def router(self) -> APIRouter:
        """Return the routes, which are not part of the documented API."""
        router = APIRouter(include_in_schema=False)
        router.add_api_route("/", self.root, methods=["GET", "HEAD"])
        router.add_api_route("/docs", self.docs, methods=["GET", "HEAD"])
        return router

    async def root(self) -> JSONResponse:
        """Describe the service and link its documentation."""
        info = self._document()["info"]
        return JSONResponse(
            {
                "service": info["title"],
                "version": info["version"],
                "documentation": "/docs",
                "openapi": "/openapi.json",
                "environments": "/v1/environments",
                "ready": "/readyz",
            }
        )

    async def docs(self) -> HTMLResponse:
        """Show all routes and models."""
        if self._page is None:
            self._page = reference_page(self._document())
        return HTMLResponse(self._page)


def reference_page(document: Mapping[str, Any]) -> str:
    """Render an OpenAPI document as HTML."""
    operations = [
        (path, method.upper(), operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    ]
    operations.sort(key=_tag)
    parts = [f"<h1>{escape(document['info']['title'])}</h1>", _paragraph(document["info"].get("description"))]
    parts.append('<p>As data: <a href="/openapi.json">openapi.json</a>. <a href="#models">Models</a></p>')
    for tag, group in groupby(operations, key=_tag):
        parts.append(f"<h2>{escape(tag)}</h2>")
        parts += [_operation(*each) for each in group]
    parts.append('<h2 id="models">Models</h2>')
    parts += [_model(name, model) for name, model in document["components"]["schemas"].items()]
    title = escape(document["info"]["title"])
    head = f'<meta charset="utf-8"><title>{title}</title><meta name="viewport" content="width=device-width">'
    body = "".join(parts)
    return (
        f'<!doctype html><html lang="en"><head>{head}<style>{_STYLE}</style></head><body>{body}</body></html>'
    )


def _tag(operation: tuple[str, str, Mapping[str, Any]]) -> str:
    return str(next(iter(operation[2].get("tags", ())), "other"))


def _operation(path: str, method: str, operation: Mapping[str, Any]) -> str:
    rows: list[tuple[str, str]] = []
    for parameter in operation.get("parameters", ()):
        name = f"<code>{escape(parameter['name'])}</code> ({escape(parameter['in'])})"
        rows.append((name, escape(parameter.get("description", ""))))
    for media, content in operation.get("requestBody", {}).get("content", {}).items():
        rows.append((f"body, {escape(media)}", _type(content.get("schema", {}))))
    for status, response in operation["responses"].items():
        types = [_type(content.get("schema", {})) for content in response.get("content", {}).values()]
        rows.append((f"<b>{escape(status)}</b> {' '.join(types)}", _text(response.get("description", ""))))
    description = _paragraph(operation.get("description"))
    head = f"<b>{method} {escape(path)}</b> {escape(operation.get('summary', ''))}"
    return f"<details><summary>{head}</summary>{description}{_table(rows)}</details>"


def _model(name: str, model: Mapping[str, Any]) -> str:
    required = model.get("required", ())
    rows = [
        (
            f"<code>{escape(field)}</code>{'' if field in required else ' (optional)'}<br>{_type(schema)}",
            _text(schema.get("description", "")),
        )
        for field, schema in model.get("properties", {}).items()
    ]
    rows += [(f"<code>{escape(str(value))}</code>", "") for value in model.get("enum", ())]
    head = f"<summary><b>{escape(name)}</b></summary>{_paragraph(model.get('description'))}"
    return f'<details id="{escape(name)}" open>{head}{_table(rows)}</details>'


def _type(schema: Mapping[str, Any]) -> str:
    """Describe a schema in a few words; models are links."""
    if "$ref" in schema:
        name = escape(str(schema["$ref"]).rpartition("/")[2])
        return f'<a href="#{name}">{name}</a>'
    for union in ("anyOf", "oneOf", "allOf"):
        if union in schema:
            return " or ".join(_type(each) for each in schema[union])
    if schema.get("type") == "array":
        return f"list of {_type(schema.get('items', {}))}"
    if "const" in schema or "enum" in schema:
        return ", ".join(escape(repr(value)) for value in schema.get("enum", [schema.get("const")]))
    return escape(str(schema.get("type", "anything")))


def _table(rows: Iterable[tuple[str, str]]) -> str:
    return f"<table>{''.join(f'<tr><td>{left}</td><td>{right}</td></tr>' for left, right in rows)}</table>"


def _paragraph(text: str | None) -> str:
    return f"<p>{_text(text)}</p>" if text else ""


def _text(text: str) -> str:
    """Escape text and render what is in backquotes as code."""
    parts = escape(text).replace("``", "`").split("`")
    return "".join(f"<code>{part}</code>" if place % 2 else part for place, part in enumerate(parts))
