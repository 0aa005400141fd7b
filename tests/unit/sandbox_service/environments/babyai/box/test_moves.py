import pytest

from sandbox_service.environments.babyai.box.moves import CHECK, Carried, moves
from sandbox_service.environments.babyai.box.sight import Place, Sight, Thing

LEFT, RIGHT, FORWARD, PICK_UP, DROP, TOGGLE = range(6)
ROOM = frozenset((right, ahead) for right in range(-3, 4) for ahead in range(4))


def sight(*things: Thing, front: str = "empty", walls: frozenset[Place] = frozenset()) -> Sight:
    solid = {thing.place for thing in things if thing.state != "open"}
    return Sight(things, ROOM - solid - walls, front, None)


def thing(words: str, place: Place) -> Thing:
    """``red key`` or ``red locked door``."""
    color, *state, kind = words.split()
    return Thing(f"{words} 1", kind, color, "".join(state), place)


def test_the_way_to_a_thing_ends_in_front_of_it() -> None:
    possible = moves(sight(thing("red ball", (2, 2))), None).possible
    way = possible["go to red ball 1"]
    assert sorted(way) == [RIGHT, FORWARD, FORWARD, FORWARD]
    assert possible["pick up red ball 1"] == (*way, PICK_UP)


def test_a_way_leads_around_what_stands_between() -> None:
    wall = frozenset({(0, 1)})
    way = moves(sight(thing("red ball", (0, 3)), front="wall", walls=wall), None).possible["go to red ball 1"]
    assert way.count(FORWARD) > 2


def test_there_is_no_way_over_cells_that_are_not_seen_to_be_free() -> None:
    row = frozenset((right, 2) for right in range(-3, 4))
    found = moves(sight(thing("red ball", (0, 3)), walls=row), None)
    assert "go to red ball 1" not in found.possible
    assert found.refused["go to red ball 1"].endswith("as there is no path leading to it.")


def test_what_is_in_front_needs_no_way() -> None:
    found = moves(sight(thing("red ball", (0, 1)), front="ball"), None)
    assert found.refused["go to red ball 1"].startswith("You are there already")
    assert found.possible["pick up"] == found.possible["pick up red ball 1"] == (PICK_UP,)
    assert "move forward" in found.refused


@pytest.mark.parametrize(
    ("carried", "reason"),
    [
        (None, "you are not carrying a key."),
        (("ball", "red"), "you are not carrying a key."),
        (("key", "blue"), "does not match the color of the door."),
        (("key", "red"), None),
    ],
)
def test_a_locked_door_wants_a_key_of_its_color(carried: Carried | None, reason: str | None) -> None:
    found = moves(sight(thing("red locked door", (0, 1)), front="door"), carried)
    name = "toggle and go through red locked door 1"
    if reason is None:
        assert found.possible["toggle"] == (TOGGLE,)
        assert found.possible[name] == (TOGGLE, FORWARD)
    else:
        assert found.refused["toggle"].endswith(reason)
        assert found.refused[name].endswith(reason)


def test_an_open_door_is_walked_into_and_can_be_closed() -> None:
    found = moves(sight(thing("red open door", (0, 1)), front="door"), None)
    assert found.possible["go through red open door 1"] == (FORWARD,)
    assert found.possible["toggle"] == (TOGGLE,)


def test_a_closed_door_is_not_walked_into() -> None:
    found = moves(sight(thing("red closed door", (0, 3))), None)
    assert found.refused["go through red closed door 1"].endswith(
        "as it is closed. You should toggle it first."
    )
    assert found.possible["toggle and go through red closed door 1"] == (FORWARD, FORWARD, TOGGLE, FORWARD)


def test_hands_hold_one_thing_and_put_it_into_an_empty_cell() -> None:
    ball = thing("red ball", (0, 2))
    full = moves(sight(ball), ("key", "blue"))
    assert full.refused["pick up red ball 1"] == "You already carry a blue key."
    assert full.possible["drop"] == (DROP,)
    assert "not empty" in moves(sight(ball, front="door"), ("key", "blue")).refused["drop"]
    assert "not carrying" in moves(sight(ball), None).refused["drop"]


def test_turning_and_checking_are_always_possible() -> None:
    found = moves(Sight((), frozenset({(0, 0)}), "wall", ("wall", 1)), None)
    assert list(found.possible) == ["turn left", "turn right", CHECK]
    assert not set(found.possible) & set(found.refused)
