"""Write the tasks of the games, and the moves by which a search beats the default opponent.

    python -I -S prepare.py PACKAGES DATA

A task is a game, a seat and an opening: random first moves, piles or deals. The default opponent's moves
follow from the task alone, so that a solution found here wins in every episode of the task.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

SPLITS = (("train", 20), ("validation", 5), ("test", 8))
"""Openings of each game and seat."""
HANDS = 6
"""Hands of a match of poker."""
SEARCHES = 12
SIMULATIONS = 400
_SEED = 20260511


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
    return {"spec": "kuhn_poker", "rounds": [rng.sample(range(3), 2) for _ in range(HANDS)]}


GAMES = ("tic_tac_toe", "connect_four", "breakthrough", "nim", "kuhn_poker")


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


def solution(task: dict[str, Any], attempt: int) -> list[str] | None:
    """Return moves that win a task in the package's notation; None if this attempt does not win."""
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
                action = search(game, state, attempt)
                moves.append(state.action_to_string(seat, action))
            else:
                action = random_reply(state.legal_actions(), task["seed"], ply)
            state.apply_action(action)
            ply += 1
        total += state.returns()[seat]
    return moves if total > 0 else None


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


def tasks() -> Iterator[dict[str, object]]:
    """Yield the tasks of all games; each can be won, and none begins as one of another split does."""
    for name in GAMES:
        seen: set[str] = set()
        begun_in: dict[str, str] = {}
        rng = random.Random(f"{_SEED} {name}")
        for split, count in SPLITS:
            for seat in (0, 1):
                made = 0
                while made < count:
                    begun = openings(name, rng)
                    key = json.dumps([begun, seat])
                    if key in seen:
                        continue
                    seen.add(key)
                    task_id = f"{name}_{split}_{seat}_{made:02d}"
                    task = {**begun, "seat": seat, "seed": task_id}
                    first = beginning(task)
                    if begun_in.get(first, split) != split:
                        continue
                    line = complete(task_id, name, split, task)
                    if line["reference"]:
                        made += 1
                        begun_in[first] = split
                        yield line


def complete(task_id: str, name: str, split: str, task: dict[str, Any]) -> dict[str, object]:
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
