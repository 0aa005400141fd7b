"""Commands that are not passed on, and what is left of the program's frames."""

import pytest

from sandbox_service.environments.textworld.box.words import observation, plain, withheld


@pytest.mark.parametrize(
    "action", ["take script", "go north", "put save-all on q", "examine quit button", "look"]
)
def test_words_of_the_game_are_passed_on(action):
    assert withheld(action) is None


@pytest.mark.parametrize(
    "action",
    ["save", "Q", "look; restore", "drop key and quit", "transcripts", "tw-print me", "o save"],
)
def test_words_to_the_machine_are_withheld(action):
    assert withheld(action) is not None


def test_an_action_is_one_line_of_plain_letters():
    assert plain("look\n\ud800at\x00 \\x me ") == "look at x me"
    assert plain("\u4e2d\u6587") == "?"


def test_prompt_status_and_question_are_cut_off():
    status = "\n\n>" + " " * 60 + "-= Kitchen =-7/9"
    assert observation(f"\nYou eat.{status}") == "You eat."
    end = "The End\n\nWould you like to RESTART, RESTORE a saved game, QUIT or UNDO the last command?\n>"
    assert observation(end + status) == "The End"
    assert observation("-= Kitchen =-\nA room.") == "-= Kitchen =-\nA room."
