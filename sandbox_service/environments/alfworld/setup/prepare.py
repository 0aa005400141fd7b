"""Write a few synthetic ALFWorld games in the layout of the real ones; each is won by its planner's plan.

    python -I -S prepare.py PACKAGES DATA

Run once, after the install. The real games are the operator's to download.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from .households import HOUSEHOLDS, Household, problem


def game_of(household: Household) -> dict[str, Any]:
    """One game, as ``game.tw-pddl`` has it, without a walkthrough."""
    from alfworld.gen import goal_library
    from alfworld.info import ALFRED_PDDL_PATH, ALFRED_TWL2_PATH

    kind = goal_library.gdict[household.kind]
    goal = kind["pddl"].replace("#", "-").format(**household.goal)
    words = {name: value.lower() for name, value in household.goal.items()}
    sentence = kind["templates"][0].format(**words)
    grammar = Path(ALFRED_TWL2_PATH).read_text(encoding="utf-8")
    return {
        "pddl_domain": Path(ALFRED_PDDL_PATH).read_text(encoding="utf-8"),
        "grammar": grammar.replace("UNKNOWN GOAL", sentence),
        "pddl_problem": problem(household, goal),
        "solvable": True,
    }


def walkthrough(game: dict[str, Any]) -> list[str]:
    """Return the planner's plan, which is played to check that it wins."""
    import textworld
    from alfworld.agents.environment.alfred_tw_env import AlfredDemangler
    from textworld.envs import PddlEnv

    env = AlfredDemangler(
        PddlEnv(textworld.EnvInfos(won=True, policy_commands=True, admissible_commands=True))
    )
    env.load(game)
    state = env.reset()
    actions = [str(action) for action in state["policy_commands"]]
    for action in actions:
        state, _, _ = env.step(action)
    if not state["won"]:
        raise SystemExit(f"the planner's way does not win: {actions}")
    return actions


def main(packages: Path, data: Path) -> None:
    """Write the games."""
    os.environ["ALFWORLD_DATA"] = str(data)
    for household in HOUSEHOLDS:
        game = game_of(household)
        game["walkthrough"] = walkthrough(game)
        folder = data / "json_2.1.1" / household.split / f"{household.kind}-own" / household.name
        folder.mkdir(parents=True)
        (folder / "game.tw-pddl").write_text(json.dumps(game), encoding="utf-8")
        about = {"task_type": household.kind, "task_id": household.name}
        (folder / "traj_data.json").write_text(json.dumps(about), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
