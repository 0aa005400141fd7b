"""Commands that are not passed on, and what is left of the program's frames."""

import pytest

from sandbox_service.environments.textworld.box.words import commands, observation, plain, withheld


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


@pytest.mark.parametrize(
    "action",
    [
        "print_state", "enable print state option", "disable print state option", "restrict commands",
        "tw-extra-infos description", "tw-extra-infos inventory", "tw-extra-infos score",
        "tw-extra-infos moves", "tw-trace-actions", "tw-print version", "tw-print max_score",
        "tw-print player id", "tw-print EndOfObject id",
    ],
)  # fmt: skip
def test_commands_that_the_generator_adds_for_its_own_use_are_withheld(action):
    assert withheld(plain(action)) is not None
    assert withheld(plain(f"Look then {action.upper()}")) is not None


@pytest.mark.parametrize(
    "action",
    [
        "goal", "help", "take all", "get each", "pick up everything", "take knife", "prepare meal",
        "drink milk", "slice onion with knife", "dice onion with knife", "chop onion with knife",
        "cook onion with stove",
    ],
)  # fmt: skip
def test_commands_that_the_generator_adds_to_its_games_are_passed_on(action):
    assert withheld(plain(action)) is None


def test_an_action_is_one_line_of_plain_letters():
    assert plain("look\n\ud800at\x00 \\x me ") == "look at x me"
    assert plain("\u4e2d\u6587") == "?"


@pytest.mark.parametrize(
    ("line", "parts"),
    [
        ("look", ["look"]),
        ("open door. go east then look.", ["open door", "go east", "look"]),
        ("look, THEN go east and then, go west", ["look", "go east", "go west"]),
        ("take apple, knife, and book", ["take apple and knife and book"]),
        ("take sand and hand", ["take sand and hand"]),
        ("look, inventory", ["look and inventory"]),
        ("strengthen door", ["strengthen door"]),
        (". then , and", ["?"]),
    ],
)
def test_a_line_is_commands_of_one_turn_each(line, parts):
    assert commands(line) == parts


def test_prompt_status_and_question_are_cut_off():
    status = "\n\n>" + " " * 60 + "-= Kitchen =-7/9"
    assert observation(f"\nYou eat.{status}") == "You eat."
    end = "The End\n\nWould you like to RESTART, RESTORE a saved game, QUIT or UNDO the last command?\n>"
    assert observation(end + status) == "The End"
    assert observation("-= Kitchen =-\nA room.") == "-= Kitchen =-\nA room."
