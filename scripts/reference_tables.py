"""Write the tables of the reference pages from the code; tests compare the pages with them.

``python -m scripts.reference_tables`` writes docs/trainer/configuration.md.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import BaseModel

from sandbox_contract.problems import ERROR_SPECS
from sandbox_settings import settings_of
from trainer.config import RunConfig

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sandbox_settings import Setting


RUN_PAGE = Path(__file__).parents[1] / "docs" / "trainer" / "configuration.md"
_GENERATED = "\n## All settings\n"
_NO_VALUES = ("none", "required", "implied")
"""Defaults that are words of the table."""


def configuration_rows(model: type[BaseModel], prefix: str = "") -> Iterator[str]:
    """Yield one row a key: its name, its default and what it means."""
    for name, field in model.model_fields.items():
        key = f"{prefix}{name}"
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from configuration_rows(field.annotation, f"{key}.")
            continue
        default = "none" if field.default is None else f"`{json.dumps(field.default)}`"
        yield f"| `{key}` | {default} | {' '.join((field.description or '').split())} |"


def run_sections() -> dict[str, list[str]]:
    """Return the rows of a run's settings by their branch; ``run`` has those of the root itself."""
    sections: dict[str, list[str]] = {"run": []}
    settings = list(settings_of(RunConfig))
    branches = {setting.key.partition(".")[0] for setting in settings if "." in setting.key}
    for setting in settings:
        branch = setting.key.partition(".")[0]
        sections.setdefault(branch if branch in branches else "run", []).append(_setting_row(setting))
    return sections


def run_page(page: str) -> str:
    """Return the page about a run's configuration, with all that comes from the code as the code has it."""
    parts = [page.partition(_GENERATED)[0], _GENERATED]
    for branch, rows in run_sections().items():
        head = "| key | default | values | meaning |\n|---|---|---|---|"
        parts.append("\n".join(["", f"### {branch}", "", head, *rows, ""]))
    return "".join(parts)


def _setting_row(setting: Setting) -> str:
    """Name, with the kinds that have it; default; values; meaning."""
    kinds = f" ({', '.join(setting.kinds)})" if setting.kinds else ""
    default = setting.default if setting.default in _NO_VALUES else f"`{setting.default}`"
    cells = (f"`{setting.key}`{kinds}", default, setting.type, " ".join(setting.meaning.split()))
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def error_rows() -> Iterator[str]:
    """Yield one row a code: status, failure class, whether it may be retried, and its title."""
    for code, spec in ERROR_SPECS.items():
        retry = "yes" if spec.retryable else "no"
        yield f"| `{code.value}` | {spec.status} | `{spec.failure_class.value}` | {retry} | {spec.title} |"


if __name__ == "__main__":
    RUN_PAGE.write_text(run_page(RUN_PAGE.read_text(encoding="utf-8")), encoding="utf-8")
