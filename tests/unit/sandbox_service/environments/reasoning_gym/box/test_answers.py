import pytest

from sandbox_service.environments.reasoning_gym.box.answers import problem_of_call, tagged_answer


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("<answer>42</answer>", "42"),
        ("first <answer>1</answer>, no: <answer>\n2 3\n4 5\n</answer>.", "2 3\n4 5"),
        ("<answer>a <b> c</answer>", "a <b> c"),
        ("<answer></answer>", ""),
        ("<answer>one <answer>two</answer>", "two"),
    ],
)
def test_the_last_complete_element_is_the_answer(text: str, answer: str) -> None:
    assert tagged_answer(text) == answer


@pytest.mark.parametrize("text", ["", "42", "<answer>42", "42</answer>", "</answer><answer>"])
def test_a_text_without_a_complete_element_has_no_answer(text: str) -> None:
    assert tagged_answer(text) is None


@pytest.mark.parametrize(
    ("name", "arguments", "problem"),
    [
        ("submit", {"answer": "42"}, None),
        ("submit", {}, 'submit needs a text: {"answer": "..."}.'),
        ("submit", {"answer": 42}, 'submit needs a text: {"answer": "..."}.'),
        ("submit", {"answer": "42", "sure": True}, "submit has no argument 'sure'."),
        ("answer", {"answer": "42"}, 'There is no tool \'answer\'; call submit with {"answer": "..."}.'),
    ],
)
def test_a_wrong_call_is_answered_with_what_is_wrong(
    name: str, arguments: dict[str, object], problem: str | None
) -> None:
    assert problem_of_call(name, arguments) == problem
