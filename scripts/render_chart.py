"""Render the Helm chart, or write the manifests of deploy/kubernetes from it.

    python -m scripts.render_chart                 write deploy/kubernetes from its own values
    python -m scripts.render_chart VALUES.yaml...  print what these values give

Helm is the library in `helm-python-sdk` (scripts/chart_tools.txt); neither its program nor a cluster is
needed. Each document is checked against the schemas of Kubernetes, KubeRay's resources against KubeRay's.
`make chart` runs this with the packages that it needs.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import helm_python
import jsonschema
import kubernetes_validate
import yaml

ROOT = Path(__file__).parents[1]
CHART = ROOT / "deploy" / "helm" / "training-sandbox"
MANIFESTS = ROOT / "deploy" / "kubernetes"
KUBERNETES = "1.34"
KUBERAY = Path(__file__).with_name("kuberay_schema.json")
"""The fields of KubeRay's resources; written by `scripts.kuberay_schema`."""
HEAD = """\
# Rendered from deploy/helm/training-sandbox with the values of {values}, by
# `python -m scripts.render_chart`: change the values, and render anew.
"""


def read_values(*files: Path) -> dict[str, Any]:
    """Return the values of the files; later files win, as with `helm --values`."""
    merged: dict[str, Any] = {}
    for file in files:
        merged = _merge(merged, yaml.safe_load(file.read_text()) or {})
    return merged


def render(values: Mapping[str, Any], name: str = "sandbox", namespace: str = "sandbox") -> str:
    """Return all manifests. Raises helm_python.HelmError, for values too that the schema refuses."""
    with helm_python.Chart.load(CHART) as chart:
        chart.validate_schema(dict(values))
        manifests = chart.render(values=dict(values), name=name, namespace=namespace)
    texts = [manifests[file].strip() for file in sorted(manifests) if file.endswith(".yaml")]
    return "\n".join(f"---\n{text.removeprefix('---').strip()}" for text in texts if text)


def check(manifests: str) -> int:
    """Check each document, and return their number; raises a ValidationError."""
    kuberay = json.loads(KUBERAY.read_text())
    documents = [each for each in yaml.safe_load_all(manifests) if each]
    for document in documents:
        if not document["apiVersion"].startswith("ray.io/"):
            kubernetes_validate.validate(document, KUBERNETES, strict=True)
            continue
        jsonschema.validate(document, {**kuberay, "$ref": f"#/$defs/{document['kind']}"})
        for pod in _pods(document["spec"]):
            pod = {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {**pod["metadata"], "name": "p"},
                "spec": pod["spec"],
            }
            kubernetes_validate.validate(pod, KUBERNETES, strict=True)
    return len(documents)


def _pods(spec: Mapping[str, Any]) -> list[dict[str, Any]]:
    cluster = spec.get("rayClusterConfig", spec)
    groups = [cluster["headGroupSpec"], *cluster["workerGroupSpecs"]]
    return [group["template"] for group in groups]


def _merge(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(below)
    for key, value in above.items():
        both = isinstance(value, dict) and isinstance(merged.get(key), dict)
        merged[key] = _merge(merged[key], value) if both else value
    return merged


def main(arguments: list[str]) -> None:
    """Write the manifests, or print those of the values files in ``arguments``."""
    if arguments:
        manifests = render(read_values(*map(Path, arguments)))
        check(manifests)
        print(manifests)
        return
    for values in sorted(MANIFESTS.glob("*.values.yaml")):
        manifests = render(read_values(values))
        target = values.with_name(values.name.replace(".values", ""))
        target.write_text(HEAD.format(values=values.name) + manifests.strip() + "\n")
        print(f"{target.relative_to(ROOT)}: {check(manifests)} documents")


if __name__ == "__main__":
    main(sys.argv[1:])
