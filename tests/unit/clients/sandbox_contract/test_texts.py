import pytest

from sandbox_contract.texts import is_dialogue, needs_texts


@pytest.mark.parametrize(
    ("info", "needed", "dialogue"),
    [
        ({}, False, False),
        ({"texts": None}, False, False),
        ({"texts": "last"}, True, False),
        ({"texts": "dialogue"}, True, True),
    ],
    ids=str,
)
def test_an_opening_says_which_texts_a_task_needs(info, needed, dialogue) -> None:
    assert (needs_texts(info), is_dialogue(info)) == (needed, dialogue)
