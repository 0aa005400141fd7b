"""The preparation's own modules; what it makes of the whole package is in the other tests."""

import pytest

from sandbox_service.environments.bfcl.setup.conversion import offered_name, tool_of
from sandbox_service.environments.bfcl.setup.solutions import any_call, parse_call, solve_single

DOCUMENT = {
    "name": "math.triangle.area",
    "description": "Computes.",
    "parameters": {
        "type": "dict",
        "required": ["base", "gone"],
        "properties": {
            "base": {"type": "float", "description": "Base."},
            "unit": {"type": "any", "description": "Unit.", "optional": True, "default": "m"},
            "points": {"type": "tuple", "items": {"type": "dict", "properties": {"x": {"type": "integer"}}}},
        },
    },
    "response": {"type": "dict"},
}


def test_a_document_becomes_a_json_schema():
    assert tool_of(DOCUMENT) == {
        "type": "function",
        "function": {
            "name": "math_triangle_area",
            "description": "Computes.",
            "parameters": {
                "type": "object",
                "properties": {
                    "base": {"type": "number", "description": "Base. This is a float type value."},
                    "unit": {"type": "string", "description": "Unit.", "default": "m"},
                    "points": {
                        "type": "array",
                        "items": {"type": "object", "properties": {"x": {"type": "integer"}}},
                    },
                },
                "required": ["base"],
            },
        },
    }


@pytest.mark.parametrize(
    ("name", "offered"),
    [("a.b.c", "a_b_c"), ("plain-name_1", "plain-name_1"), ("ü b", "__b"), ("x" * 80, "x" * 64)],
)
def test_names_are_offered_in_allowed_characters(name, offered):
    assert offered_name(name) == offered


def test_a_call_is_read_with_positional_and_named_arguments():
    assert parse_call("sort('a.txt', reverse=True)", {"sort": ["file_name", "reverse"]}) == (
        "sort",
        {"file_name": "a.txt", "reverse": True},
    )


@pytest.mark.parametrize("text", ["sort(open('x'))", "a.b()", "1 + 1", "sort(file_name=name)"])
def test_what_is_no_call_with_literals_is_refused(text):
    with pytest.raises((TypeError, ValueError)):
        parse_call(text, {"sort": ["file_name"]})


def test_a_solution_tries_accepted_values_until_the_checker_takes_them():
    tried = []

    def accepts(document, call, entry):
        tried.append(call[1])
        return call[1] == {"base": 5.0}

    truth = [{"math.triangle.area": {"base": [3, 5], "unit": ["", "m"]}}]
    assert solve_single([DOCUMENT], truth, "python", accepts) == [("math.triangle.area", {"base": 5.0})]
    assert {"base": 3, "unit": "m"} in tried


def test_a_task_that_its_checker_accepts_in_no_form_has_no_solution():
    truth = [{"math.triangle.area": {"base": [3]}}]
    assert solve_single([DOCUMENT], truth, "python", lambda *_: False) is None


def test_any_call_has_the_required_arguments():
    assert any_call(tool_of(DOCUMENT)) == ("math_triangle_area", {"base": 1.0})
