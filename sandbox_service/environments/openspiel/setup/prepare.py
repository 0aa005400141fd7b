"""Write the tasks of the games, and the moves by which a search beats the default opponent.

    python -I -S prepare.py PACKAGES DATA

A task is a game, a seat and an opening: random first moves, piles or deals. The default opponent's moves
follow from the task alone, so that a solution found here wins in every episode of the task.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

Line = dict[str, Any]
"""A task, as the file has it."""
SPLITS = (("train", 20), ("validation", 5), ("test", 8))
"""Openings of each game and seat."""
HANDS = 6
"""Hands of a match of poker."""
SEARCHES = 12
SIMULATIONS = 400
_SEED = 20260511
POKER = "kuhn_poker"
_BET = 1


def random_reply(legal: list[int], seed: str, ply: int) -> int:
    """Return the default opponent's move; ``box/opponents.py`` has the same rule."""
    return random.Random(f"{seed} {ply}").choice(legal)


def openings(name: str, rng: random.Random) -> dict[str, Any]:
    """Return a game's specification, and the moves and deals that each round begins with."""
    match name:
        case "tic_tac_toe":
            return {"spec": "tic_tac_toe", "rounds": [opening("tic_tac_toe", rng, rng.choice((1, 2, 2)))]}
        case "connect_four":
            return {"spec": "connect_four", "rounds": [opening("connect_four", rng, rng.randint(2, 5))]}
        case "breakthrough":
            spec = "breakthrough(rows=6,columns=5)"
            return {"spec": spec, "rounds": [opening(spec, rng, rng.randint(2, 4))]}
        case "nim":
            piles = ";".join(str(rng.randint(1, 7)) for _ in range(rng.randint(3, 4)))
            return {"spec": f"nim(pile_sizes={piles},is_misere=false)", "rounds": [[]]}
    return {"spec": POKER, "rounds": [rng.sample(range(3), 2) for _ in range(HANDS)]}


GAMES = ("tic_tac_toe", "connect_four", "breakthrough", "nim", POKER)


def opening(spec: str, rng: random.Random, moves: int) -> list[int]:
    """Return random first moves."""
    import pyspiel

    state = pyspiel.load_game(spec).new_initial_state()
    for _ in range(moves):
        state.apply_action(rng.choice(state.legal_actions()))
    return list(state.history())


def search(game: Any, state: Any, attempt: int) -> int:  # noqa: ANN401  # of a package without types
    """Return a good move: by tree search, or at random where cards are hidden."""
    import pyspiel

    if game.get_type().information != pyspiel.GameType.Information.PERFECT_INFORMATION:
        return int(random.Random(f"{attempt} {state.history_str()}").choice(state.legal_actions()))
    rollouts = pyspiel.RandomRolloutEvaluator(1, attempt)
    bot = pyspiel.MCTSBot(game, rollouts, 2.0, SIMULATIONS, 100, True, attempt, False)
    return int(bot.step(state))


def play(task: dict[str, Any], choose: Callable[[Any, Any], int]) -> tuple[float, list[str]]:
    """Return what a player gets in a task, and its moves in the package's notation."""
    import pyspiel

    game = pyspiel.load_game(task["spec"])
    total, ply, moves = 0.0, 0, []
    for number, begun in enumerate(task["rounds"]):
        seat = (task["seat"] + number) % 2
        state = game.new_initial_state()
        for action in begun:
            state.apply_action(action)
        while not state.is_terminal():
            if state.current_player() == seat:
                action = choose(game, state)
                moves.append(state.action_to_string(seat, action))
            else:
                action = random_reply(state.legal_actions(), task["seed"], ply)
            state.apply_action(action)
            ply += 1
        total += state.returns()[seat]
    return total, moves


def solution(task: dict[str, Any], attempt: int) -> list[str] | None:
    """Return moves that win a task in the package's notation; None if this attempt does not win."""
    total, moves = play(task, lambda game, state: search(game, state, attempt))
    return moves if total > 0 else None


def always_betting_wins(task: dict[str, Any]) -> bool:
    """Return whether a match of poker is won by a bet at every turn."""
    return play(task, lambda game, state: _BET)[0] > 0


def beginning(task: dict[str, Any]) -> str:
    """Return what distinguishes a task: the state in which the agent first moves, or all deals of a match.

    Two openings may lead to one state: moves in another order, or one more that the opponent makes by itself.
    """
    import pyspiel

    if len(task["rounds"]) > 1:
        return json.dumps([task["rounds"], task["seat"]])
    state = pyspiel.load_game(task["spec"]).new_initial_state()
    for action in task["rounds"][0]:
        state.apply_action(action)
    ply = 0
    while not state.is_terminal() and state.current_player() != task["seat"]:
        state.apply_action(random_reply(state.legal_actions(), task["seed"], ply))
        ply += 1
    return json.dumps([task["spec"], task["seat"], str(state)])


class Draws:
    """Draws the tasks of one game; none is drawn twice, and none begins as one of another split does."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._seen: set[str] = set()
        self._begun_in: dict[str, str] = {}

    def draw_task(self, rng: random.Random, split: str, seat: int, number: int) -> Line:
        """Return a task that can be won."""
        task_id = f"{self.name}_{split}_{seat}_{number:02d}"
        while True:
            begun = openings(self.name, rng)
            key = json.dumps([begun, seat])
            if key in self._seen:
                continue
            self._seen.add(key)
            task = {**begun, "seat": seat, "seed": task_id}
            first = beginning(task)
            if self._begun_in.get(first, split) != split:
                continue
            line = complete(task_id, self.name, split, task)
            if line["reference"]:
                self._begun_in[first] = split
                return line


def tasks() -> Iterator[Line]:
    """Yield the tasks of all games; each can be won, and none begins as one of another split does."""
    for name in GAMES:
        rng = random.Random(f"{_SEED} {name}")
        draws = Draws(name)
        parts = [
            [draws.draw_task(rng, split, seat, number) for number in range(count)]
            for split, count in SPLITS
            for seat in (0, 1)
        ]
        for part in parts:
            yield from part if name != POKER else balanced(part, draws)


def balanced(part: list[Line], draws: Draws) -> list[Line]:
    """Return poker's tasks of a split and seat, of which always betting wins at most half.

    It wins most of them, since the default opponent folds every second hand. Others take the place of those
    beyond the half, with ids of their own: the task of an id is always the same.
    """
    count = len(part)
    dropped = [line for line in part if always_betting_wins(line["task"])][count // 2 :]
    lines = [line for line in part if line not in dropped]
    split, seat = part[0]["splits"][0], part[0]["task"]["seat"]
    rng = random.Random(f"{_SEED} {draws.name} {split} {seat}")
    for number in range(count, count + len(dropped)):
        line = draws.draw_task(rng, split, seat, number)
        while always_betting_wins(line["task"]):
            line = draws.draw_task(rng, split, seat, number)
        lines.append(line)
    return lines


def complete(task_id: str, name: str, split: str, task: dict[str, Any]) -> Line:
    """Return a task with its reference, as a line of the file has it; one that no search wins has none."""
    found = (solution(task, attempt) for attempt in range(SEARCHES))
    reference = next((moves for moves in found if moves is not None), [])
    return {"id": task_id, "category": name, "splits": [split, "all"], "task": task, "reference": reference}


def main(packages: Path, data: Path) -> None:
    """Write the tasks, and print how many have a reference."""
    sys.path.insert(0, str(packages))
    found = list(tasks())
    lines = [json.dumps(task) + "\n" for task in found]
    (data / "tasks.jsonl").write_text("".join(lines), encoding="utf-8")
    sys.stdout.write(f"{len(found)} tasks, each with a reference\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
