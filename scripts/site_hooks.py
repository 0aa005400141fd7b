"""Hooks of MkDocs: pages as they are in the repository become a site whose links all work.

A link from a page to a file of the repository outside of ``docs`` works on a code host. In the site, the file
is a copy under ``repository/``, and a folder is its README or a list of its files. Pages that have no source,
the references, are generated: from docstrings, and from the service's OpenAPI document.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mkdocs.structure.files import File

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
OPENAPI = ROOT / "var" / "openapi.json"
COPIES = "repository"
_LINK = re.compile(r"(?<=\]\()(?!\w+:|#|/)([^)\s#]+)(#[^)\s]*)?(?=\))")
_FENCE = re.compile(r"^( *```+\w+) .*$", re.MULTILINE)
_REFERENCES = {
    "client": (
        "Python client",
        [
            "sandbox_client.SandboxClient",
            "sandbox_client.AsyncSandboxClient",
            "sandbox_client.Episode",
            "sandbox_client.AsyncEpisode",
            "sandbox_client.errors",
            "sandbox_client.tracing",
        ],
    ),
    "environments": (
        "Contract of environments",
        ["sandbox_service.environments.base", "sandbox_service.runner.world"],
    ),
    "trainer": (
        "Trainer API",
        ["trainer.launch.recorded_training", "trainer.types", "trainer.plugins", "trainer.errors"],
    ),
}


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Add pages that the navigation does not list yet: those of environments to theirs, others at its end."""
    listed = set(re.findall(r"[\w/]+\.md", json.dumps(config.nav)))
    rest = sorted(path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md"))
    rest = [uri for uri in rest if uri not in listed]
    of_environments = [uri for uri in rest if uri.startswith("environments/")]
    assert config.nav is not None
    next(part for part in config.nav if "Environments" in part)["Environments"] += of_environments
    if others := [uri for uri in rest if uri not in of_environments]:
        config.nav.append({"More": others})
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the files that pages link to, and the generated pages."""
    for uri, path in _copies().items():
        if path.is_dir():
            files.append(File.generated(config, uri, content=_listing(path)))
        else:
            files.append(File.generated(config, uri, abs_src_path=str(path)))
    for name, (title, objects) in _REFERENCES.items():
        parts = "\n\n".join(f"::: {each}" for each in objects)
        files.append(File.generated(config, f"reference/{name}.md", content=f"# {title}\n\n{parts}\n"))
    http = _http_reference(json.loads(OPENAPI.read_text()))
    files.append(File.generated(config, "reference/http.md", content=http))
    files.append(File.generated(config, "reference/openapi.json", content=OPENAPI.read_text()))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Return the page with links to the site's files, and without the notes to the tests beside fences."""
    uri = page.file.src_uri
    source = ROOT / uri.removeprefix(f"{COPIES}/") if uri.startswith(f"{COPIES}/") else DOCS / uri

    def in_site(link: re.Match[str]) -> str:
        target = (source.parent / link[1]).resolve()
        if not target.is_relative_to(ROOT) or not target.exists():
            return link[0]
        return os.path.relpath(_uri(target), Path(uri).parent) + (link[2] or "")

    return _LINK.sub(in_site, _FENCE.sub(r"\1", markdown))


def _uri(path: Path) -> str:
    """Return the place in the site of a file or folder of the repository."""
    if path.is_dir():
        path = path / ("README.md" if (path / "README.md").is_file() else "index.md")
    if path.is_relative_to(DOCS):
        return path.relative_to(DOCS).as_posix()
    return f"{COPIES}/{path.relative_to(ROOT).as_posix()}"


def _copies() -> dict[str, Path]:
    """Return the files outside of ``docs`` that pages link to, directly or not, by their place."""
    found: dict[str, Path] = {}
    waiting = sorted(DOCS.rglob("*.md"))
    while waiting:
        page = waiting.pop()
        for link in _LINK.finditer(page.read_text(encoding="utf-8")):
            target = (page.parent / link[1]).resolve()
            if not target.is_relative_to(ROOT) or not target.exists() or target.is_relative_to(DOCS):
                continue
            uri = _uri(target)
            if uri in found:
                continue
            readme = target / "README.md"
            found[uri] = readme if readme.is_file() else target
            waiting += [found[uri]] if found[uri].suffix == ".md" else []
    return found


def _listing(folder: Path) -> str:
    lines = [f"- `{path.name}`" for path in sorted(folder.iterdir()) if not path.name.startswith(("_", "."))]
    return f"# {folder.relative_to(ROOT)}\n\nFiles of this folder of the repository:\n\n" + "\n".join(lines)


def _http_reference(document: dict[str, Any]) -> str:
    """Return the routes and models of an OpenAPI document as a page."""
    origin = "Generated from [the OpenAPI document](openapi.json); [the API](../api.md) explains it."
    lines = ["# HTTP reference", "", origin]
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            lines += ["", f"## `{method.upper()} {path}`", "", operation.get("summary", "")]
            lines += ["", "| answer | content |", "|---|---|"]
            for status, answer in operation.get("responses", {}).items():
                lines.append(f"| {status} | {_cell(answer.get('description', ''))} {_schema(answer)} |")
            if body := operation.get("requestBody"):
                lines += ["", f"Body: {_schema(body)}"]
    for name, schema in sorted(document.get("components", {}).get("schemas", {}).items()):
        lines += ["", f"## {name}", "", _cell(schema.get("description", "")).strip()]
        if properties := schema.get("properties"):
            required = set(schema.get("required", ()))
            lines += ["", "| field | required | meaning |", "|---|---|---|"]
            for field, described in properties.items():
                meaning = _cell(described.get("description", ""))
                lines.append(f"| `{field}` | {'yes' if field in required else ''} | {meaning} |")
    return "\n".join(lines) + "\n"


def _schema(part: dict[str, Any]) -> str:
    found = re.findall(r"#/components/schemas/(\w+)", json.dumps(part.get("content", {})))
    return ", ".join(f"`{name}`" for name in dict.fromkeys(found))


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")
