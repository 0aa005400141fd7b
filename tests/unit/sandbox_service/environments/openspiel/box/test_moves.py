"""The words for moves: those of the library and those of players."""

import pytest

from sandbox_service.environments.openspiel.box.moves import label_of


@pytest.mark.parametrize(
    ("game", "text", "label"),
    [
        ("tic_tac_toe", "x(1,2)", "1,2"),
        ("tic_tac_toe", "row 1, column 2", "1,2"),
        ("tic_tac_toe", "1", "1"),
        ("connect_four", "o3", "3"),
        ("connect_four", "I drop it into column 3.", "3"),
        ("nim", "pile:2, take:3;", "pile 2, take 3"),
        ("nim", "pile 2, take 3", "pile 2, take 3"),
        ("nim", "take 3", ""),
        ("breakthrough", "a5b4*", "a5b4"),
        ("breakthrough", "A5 - B4", "a5b4"),
        ("breakthrough", "a5", ""),
        ("kuhn_poker", "Bet", "bet"),
        ("kuhn_poker", "I call", "bet"),
        ("kuhn_poker", "fold", "pass"),
        ("kuhn_poker", "raise", ""),
        ("kuhn_poker", "", ""),
    ],
)
def test_a_move_is_read_as_the_library_or_as_a_player_writes_it(game: str, text: str, label: str) -> None:
    assert label_of(game, text) == label
