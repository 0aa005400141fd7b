"""The fields of KubeRay's resources, shortened from its custom resource definitions."""

import jsonschema
import pytest

from scripts.kuberay_schema import shorten

DEFINITION = {
    "type": "object",
    "description": "left out",
    "required": ["mode"],
    "properties": {
        "mode": {"type": "string", "enum": ["a", "b"], "description": "left out"},
        "port": {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]},
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        "groups": {"type": "array", "items": {"type": "object", "properties": {"name": {"type": "string"}}}},
        "template": {"type": "object", "properties": {"spec": {"type": "object"}}},
    },
}
VALID = {
    "mode": "a",
    "port": "http",
    "labels": {"any": "name"},
    "groups": [{"name": "x"}],
    "template": {"whatever": 1},
}


def test_what_the_definition_allows_is_allowed() -> None:
    jsonschema.validate(VALID, shorten(DEFINITION))


@pytest.mark.parametrize(
    "change",
    [
        {"mode": "c"},
        {"port": []},
        {"labels": {"a": 1}},
        {"groups": [{"nam": "x"}]},
        {"templat": {}},
    ],
    ids=str,
)
def test_a_wrong_value_or_an_unknown_field_is_refused(change) -> None:
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(VALID | change, shorten(DEFINITION))


def test_descriptions_and_fields_of_pods_are_left_out() -> None:
    short = shorten(DEFINITION)
    assert "description" not in str(short)
    assert short["properties"]["template"] == {"type": "object"}
