import pytest

from sandbox_service.environments.babyai.box.sight import Sight, Thing
from sandbox_service.environments.babyai.box.words import described, plain

KEY = Thing("red key 1", "key", "red", "", (0, 2))
DOOR = Thing("grey closed door 1", "door", "grey", "closed", (-3, 1))


def test_things_are_told_from_near_to_far_with_their_places() -> None:
    sight = Sight((KEY, DOOR), frozenset(), "empty", ("wall", 4))
    assert described(sight, ("ball", "blue")) == (
        "In front of you in this room, you can see several objects: "
        "There is a red key 1 right in front of you 2 steps away. "
        "There is a grey closed door 1 1 steps in front of you and 3 steps to your left. "
        "The room has walls around you. You are facing a wall 4 steps away. You are carrying a blue ball."
    )


def test_an_empty_sight_is_told_so() -> None:
    words = described(Sight((), frozenset(), "empty", None), None)
    assert words.startswith("You cannot see any objects within sight.")
    assert words.endswith("The room has walls around you. You are not carrying anything.")


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("  Turn Left.\n", "turn left"),
        ("`pickup red_ball 1`", "pick up red ball 1"),
        ('["go  to red ball 1"]', "go to red ball 1"),
        ("toggle\n\nThought: and then", "toggle"),
        ("pick up", "pick up"),
    ],
)
def test_an_action_is_read_as_models_write_it(written: str, read: str) -> None:
    assert plain(written) == read
