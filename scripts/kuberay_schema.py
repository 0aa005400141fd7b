"""Write scripts/kuberay_schema.json, the fields of KubeRay's resources, from its custom resource definitions.

    python -m scripts.kuberay_schema FOLDER 1.6.0   FOLDER is helm-chart/kuberay-operator/crds of that release

Descriptions are left out, and so are the fields of Kubernetes' own objects, such as pods, which
`scripts.render_chart` checks against the schemas of Kubernetes. What is left is closed: the API server would
drop a field that it does not know, and apply the rest.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

SCHEMA = Path(__file__).with_name("kuberay_schema.json")
RELEASE_KEY = "x-kuberay"
"""The key of the schema that holds KubeRay's release."""
_KINDS = ("rayclusters", "rayservices")
_VERSION = "v1"
_KEPT = ("enum", "required")
_OF_KUBERNETES = frozenset(
    {
        "env",
        "envFrom",
        "headService",
        "metadata",
        "resources",
        "securityContext",
        "serveService",
        "status",
        "template",
        "valueFrom",
        "volumeMounts",
    }
)
"""Names of fields whose value is one of Kubernetes' own objects, or is set by the operator."""
_NOTICE = (
    "Derived from the custom resource definitions of KubeRay (https://github.com/ray-project/kuberay), which "
    "are licensed under the Apache License 2.0; shortened by scripts/kuberay_schema.py."
)


def shorten(schema: Mapping[str, Any], name: str = "") -> dict[str, Any]:
    """Return a closed JSON schema of a field; ``name`` is the field's."""
    kind = ["integer", "string"] if schema.get("x-kubernetes-int-or-string") else schema.get("type")
    short: dict[str, Any] = {} if kind is None else {"type": kind}
    if name in _OF_KUBERNETES:
        return short
    short |= {key: schema[key] for key in _KEPT if key in schema}
    if "properties" in schema:
        short["properties"] = {key: shorten(value, key) for key, value in schema["properties"].items()}
        short["additionalProperties"] = False
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), Mapping):
            short[key] = shorten(schema[key])
    return short


def read_definitions(folder: Path) -> dict[str, dict[str, Any]]:
    """Return the schema of each kind from the files of its custom resource definition."""
    found = {}
    for kind in _KINDS:
        definition = yaml.safe_load((folder / f"ray.io_{kind}.yaml").read_text())["spec"]
        (schema,) = (
            each["schema"]["openAPIV3Schema"] for each in definition["versions"] if each["name"] == _VERSION
        )
        found[definition["names"]["kind"]] = shorten(schema)
    return found


def main(folder: str, release: str) -> None:
    """Write the schemas of all kinds."""
    kinds = read_definitions(Path(folder))
    document = {"$comment": _NOTICE, RELEASE_KEY: release, "$defs": kinds}
    cluster = kinds["RayCluster"]["properties"]["spec"]
    service = kinds["RayService"]["properties"]["spec"]["properties"]
    assert service["rayClusterConfig"] == cluster, "the cluster of a service differs from a cluster"
    service["rayClusterConfig"] = {"$ref": "#/$defs/RayCluster/properties/spec"}
    SCHEMA.write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
