"""Write the settings of the service into the schema of the chart's values, from their models.

    python -m scripts.chart_schema

Helm then refuses a setting that does not exist, or one of a wrong type, before anything is applied. The rest
of values.schema.json is written by hand. `make chart` runs this.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from sandbox_service.config import ServiceConfig

SCHEMA = Path(__file__).parents[1] / "deploy" / "helm" / "training-sandbox" / "values.schema.json"
_GENERATED = re.compile(r'^    "[A-Z]\w*": .*\n', re.MULTILINE)
"""A definition that was written by this script: a model's name, on one line."""
_HEAD = '  "definitions": {\n'
_LEFT_OUT = frozenset({"title", "description", "default", "format"})
_MAPS = frozenset({"properties", "patternProperties", "$defs"})
"""Keywords below which the keys are names, and not keywords."""


def with_settings(schema: str) -> str:
    """Return the text of the chart's schema with the present settings of the service.

    Those that follow from the chart are among them, since the chart's own message about them says more.
    """
    definitions = "".join(f'    "{name}": {json.dumps(each)},\n' for name, each in _definitions().items())
    return _GENERATED.sub("", schema).replace(_HEAD, _HEAD + definitions, 1)


def _definitions() -> dict[str, Any]:
    described = _draft_7(ServiceConfig.model_json_schema())
    definitions: dict[str, Any] = described.pop("$defs")
    # A key in place of its digest would be a secret in plain text.
    definitions["ServerConfig"]["properties"]["api_keys"]["propertyNames"] = {"pattern": "^[0-9a-f]{64}$"}
    return dict(sorted({**definitions, "ServiceConfig": described}.items()))


def _draft_7(node: Any, *, names: bool = False) -> Any:  # noqa: ANN401 - any part of a JSON document
    """Return a part of a schema in the draft that all releases of Helm know, without texts and defaults."""
    if isinstance(node, list):
        return [_draft_7(each) for each in node]
    if isinstance(node, str):
        return node.replace("#/$defs/", "#/definitions/")
    if not isinstance(node, dict):
        return node
    if names:
        return {name: _draft_7(each) for name, each in node.items()}
    return {
        "items" if key == "prefixItems" else key: _draft_7(each, names=key in _MAPS)
        for key, each in node.items()
        if key not in _LEFT_OUT
    }


if __name__ == "__main__":
    SCHEMA.write_text(with_settings(SCHEMA.read_text()))
