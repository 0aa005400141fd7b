"""Write BabyAI's tasks, a level and a seed each, with the actions by which minigrid's own bot solves them.

    python -I -S prepare.py PACKAGES DATA

Run once, after the install. minigrid imports pygame for its window, which no box ever opens; from here on it
does without where there is none.
"""

from __future__ import annotations

import contextlib
import io
import json
import py_compile
import random
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from minigrid.envs.babyai.core.roomgrid_level import RoomGridLevel

LEVELS = (
    *("GoToRedBallGrey", "GoToRedBall", "GoToRedBallNoDists", "GoToObjS6", "GoToLocalS8N7"),
    *("GoToObjMazeS7", "GoToImpUnlock", "GoToSeqS5R2", "GoToRedBlueBall", "GoToDoor", "GoToObjDoor"),
    *("Open", "OpenRedDoor", "OpenDoorLoc", "OpenRedBlueDoorsDebug", "OpenDoorsOrderN4Debug", "Pickup"),
    *("UnblockPickup", "PickupLoc", "PickupDistDebug", "PickupAbove", "PutNextLocalS6N4"),
    *("PutNextS7N4Carrying", "Unlock", "UnlockLocalDist", "KeyInBox", "UnlockPickupDist"),
    *("BlockedUnlockPickup", "UnlockToUnlock", "ActionObjDoor", "FindObjS7", "KeyCorridorS6R3"),
    *("OneRoomS20", "MoveTwoAcrossS8N9", "SynthS5R2", "SynthLoc", "SynthSeq", "MiniBossLevel"),
    *("BossLevel", "BossLevelNoUnlock"),
)
"""AgentGym's forty, in its order."""
SEEDS = (("train", range(20)), ("validation", range(20, 25)), ("test", range(25, 30)))
ACTIONS = ("turn left", "turn right", "move forward", "pick up", "drop", "toggle")
"""The engine's actions by number, as the world names them."""
LEFT, RIGHT, FORWARD, _, DROP, TOGGLE = range(6)
MOST_LOOKS = 32
"""Looks of the bot at its own plan before one action, after which it is going round in circles."""
WANDERINGS = 8


def do_without_window(packages: Path) -> None:
    """Let minigrid be imported where there is no pygame."""
    source = packages / "minigrid" / "minigrid_env.py"
    text = source.read_text(encoding="utf-8")
    needed = "\nimport pygame\nimport pygame.freetype\n"
    optional = (
        "\ntry:\n    import pygame\n    import pygame.freetype\nexcept ImportError:\n    pygame = None\n"
    )
    if optional not in text:
        if text.count(needed) != 1:
            raise SystemExit("minigrid does not import pygame as it did")
        source.unlink()  # an installer may have linked it to a cache
        source.write_text(text.replace(needed, optional), encoding="utf-8")
    # Byte code that is not checked against its source would still be that of the old one.
    for stale in (packages / "minigrid" / "__pycache__").glob("minigrid_env.*"):
        stale.unlink()
    py_compile.compile(str(source), invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)


class Lost(Exception):  # noqa: N818  # an outcome, not a fault
    """The bot has no further plan."""


class Plan(list[object]):
    """The bot's stack of goals, which it looks at only so often."""

    looks = 0

    def __getitem__(self, index):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN204
        self.looks += 1
        if self.looks > MOST_LOOKS:
            raise Lost
        return super().__getitem__(index)


class Attempt:
    """One attempt at one task: its actions, and whether they solved the task."""

    def __init__(self, name: str, seed: int) -> None:
        import gymnasium

        env: RoomGridLevel = gymnasium.make(name, disable_env_checker=True).unwrapped
        self.env = env
        env.reset(seed=seed)
        self.actions: list[int] = []
        self.over = self.solved = False

    def do(self, action: int) -> None:
        """Take one of the engine's actions, unless the episode is over."""
        if not self.over:
            _, reward, ended, cut, _ = self.env.step(action)
            self.actions.append(action)
            self.over, self.solved = ended or cut, reward > 0

    def ask_the_bot(self) -> None:
        """Take the actions of minigrid's bot from here on."""
        from minigrid.utils.baby_ai_bot import BabyAIBot

        bot = BabyAIBot(self.env)
        plan = bot.stack = Plan(bot.stack)
        action = None
        while not self.over:
            plan.looks = 0
            action = bot.replan(action)
            self.do(int(action))


def put_down(attempt: Attempt, chance: random.Random) -> None:
    """Drop what is carried from the start, which the bot does not expect."""
    env = attempt.env
    for _ in range(4):
        if env.carrying is not None and env.grid.get(*env.front_pos) is None:
            attempt.do(DROP)
        elif env.carrying is not None:
            attempt.do(LEFT)


def open_boxes(attempt: Attempt, chance: random.Random) -> None:
    """Open the boxes of the room, where the bot does not look for keys."""
    env = attempt.env
    cells = [(x, y) for x in range(env.width) for y in range(env.height)]
    for target in [cell for cell in cells if getattr(env.grid.get(*cell), "type", "") == "box"]:
        for action in way_to(env, target):
            attempt.do(action)
        if tuple(env.front_pos) == target:
            attempt.do(TOGGLE)


def wander(attempt: Attempt, chance: random.Random) -> None:
    """Move elsewhere before the bot plans."""
    for action in chance.choices((LEFT, RIGHT, FORWARD), (1, 1, 3), k=chance.randrange(4, 24)):
        front = attempt.env.grid.get(*attempt.env.front_pos)
        if action != FORWARD or front is None or front.can_overlap():
            attempt.do(action)


def way_to(env: RoomGridLevel, target: tuple[int, int]) -> list[int]:
    """Return the fewest actions after which the agent faces a cell; none without a path."""
    steps = ((1, 0), (0, 1), (-1, 0), (0, -1))
    x, y = (int(each) for each in env.agent_pos)
    paths: dict[tuple[int, int, int], list[int]] = {(x, y, int(env.agent_dir)): []}
    queue = list(paths)
    for x, y, heading in queue:
        path = paths[x, y, heading]
        ahead = (x + steps[heading][0], y + steps[heading][1])
        if ahead == target:
            return path
        follow = [((x, y, (heading - 1) % 4), LEFT), ((x, y, (heading + 1) % 4), RIGHT)]
        if env.grid.get(*ahead) is None:
            follow.append(((*ahead, heading), FORWARD))
        for place, action in follow:
            if place not in paths:
                paths[place] = [*path, action]
                queue.append(place)
    return []


def solution(name: str, seed: int) -> list[int]:
    """Return the engine's actions that solve a task; none when no attempt does."""
    openings: list[Callable[[Attempt, random.Random], None]] = [put_down, open_boxes]
    openings += [wander] * WANDERINGS
    for number, opening in enumerate(openings):
        attempt = Attempt(name, seed)
        opening(attempt, random.Random(f"{name} {seed} {number}"))
        with contextlib.suppress(Exception):
            attempt.ask_the_bot()
        if attempt.solved:
            return attempt.actions
    return []


def tasks() -> Iterator[dict[str, object]]:
    """Return all tasks in AgentGym's order: the levels of the first seed, then those of the next."""
    for split, seeds in SEEDS:
        for seed in seeds:
            for level in LEVELS:
                # The first version of this one level is out of use in minigrid.
                name = f"BabyAI-{level}-v{int(level == 'GoToObjS6')}"
                reference = [ACTIONS[action] for action in solution(name, seed)]
                yield {
                    "id": f"{level}-{seed}",
                    "category": level,
                    "splits": [split, "all"] if reference else ["all"],
                    "task": {"name": name, "seed": seed},
                    "reference": reference,
                    "max_steps": int(Attempt(name, seed).env.max_steps),
                }


def main(packages: Path, data: Path) -> None:
    """Write the tasks, and print how many have a reference."""
    do_without_window(packages)
    sys.path.insert(0, str(packages))
    import minigrid  # noqa: F401  # registers the levels

    with contextlib.redirect_stdout(io.StringIO()):
        found = list(tasks())
    lines = [json.dumps(task) + "\n" for task in found]
    (data / "tasks.jsonl").write_text("".join(lines), encoding="utf-8")
    sys.stdout.write(
        f"{len(found)} tasks, {sum(bool(task['reference']) for task in found)} with a reference\n"
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
