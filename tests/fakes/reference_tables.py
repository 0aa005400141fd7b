"""The tables of the reference pages, made from the code: a page's test compares it with these."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from pydantic import BaseModel

from sandbox_service.contract.problems import ERROR_SPECS

if TYPE_CHECKING:
    from collections.abc import Iterator


def configuration_rows(model: type[BaseModel], prefix: str = "") -> Iterator[str]:
    """One row a key: its name, its default and what it means."""
    for name, field in model.model_fields.items():
        key = f"{prefix}{name}"
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from configuration_rows(field.annotation, f"{key}.")
            continue
        default = "none" if field.default is None else f"`{json.dumps(field.default)}`"
        yield f"| `{key}` | {default} | {field.description} |"


def error_rows() -> Iterator[str]:
    """One row a code: status, failure class, whether it may be retried, and its title."""
    for code, spec in ERROR_SPECS.items():
        retry = "yes" if spec.retryable else "no"
        yield f"| `{code.value}` | {spec.status} | `{spec.failure_class.value}` | {retry} | {spec.title} |"
