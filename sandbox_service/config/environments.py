"""Settings of the environments: one branch each."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import Field

from sandbox_settings import Branch, Count, Positive, Seconds


class AlfworldConfig(Branch):
    """The ALFWorld environment."""

    data: Path | None = None
    """A folder with the real games, ``json_2.1.1``; six small ones of our own when missing."""
    max_steps: Positive = 50
    """Steps after which an episode is truncated."""
    instances_per_box: Positive = 16
    """Most instances in one container; each is a process."""


class AppworldConfig(Branch):
    """The AppWorld environment."""

    data: Path | None = None
    """The folder that ``appworld download data`` filled; tasks of our own when missing."""
    max_steps: Positive = 50
    """Steps after which an episode is truncated."""
    cell_timeout_s: Positive = 100
    """Seconds after which a cell is interrupted, if its step has so many."""
    max_output_chars: Positive = 64 * 1024
    """Characters of a cell's output that the agent sees."""


class BabyaiConfig(Branch):
    """The BabyAI environment."""

    max_steps: Positive | None = None
    """Steps after which an episode is truncated; each level's own limit when missing."""
    many_per_worker: bool = True
    """Instances share a worker process of their box; else each has one."""


class BfclConfig(Branch):
    """The BFCL environment."""

    many_per_worker: bool = True
    """Instances share a worker process of their box; else each has one."""
    instances_per_box: Positive = 1000
    """Most instances in one container."""
    turn_steps: Positive = 20
    """Messages with calls in one turn; one more ends the episode, as in the official runner."""
    single_turn_attempts: Positive = 3
    """Messages until a single-turn task has an answer that can be read; 1 in the official runner."""
    strict_irrelevance: bool = False
    """Fail multi-turn episodes with calls in a turn that needs none, which the official runner does not."""
    validation_share: Annotated[float, Field(ge=0, le=0.5)] = 0.1
    """Share of each category that is in the validation splits."""
    split_seed: Count = 0
    """Seed of the train and validation splits."""


class CodeConfig(Branch):
    """The code environment."""

    mbpp_path: Path | None = None
    """An MBPP JSONL file; adds the ``mbpp`` splits."""
    task_files: tuple[Path, ...] = ()
    """JSONL files of own tasks; each adds a split named after the file."""
    max_steps: Positive = 30
    """Steps after which an episode is truncated."""
    tool_timeout_s: Seconds = 30.0
    """What one tool call may compute and sleep, if its step has so much time."""
    max_output_bytes: Positive = 32 * 1024
    """Output of one tool call that the agent sees."""


class ScienceworldConfig(Branch):
    """The ScienceWorld environment."""

    max_steps: Positive = 100
    """Steps after which an episode is truncated; three tasks that take longer have limits of their own."""
    many_per_worker: bool = True
    """Instances share a worker and its Java process; else each has its own, and cannot be forked."""
    instances_per_box: Positive = 64
    """Most instances in one container."""


class TextcraftConfig(Branch):
    """The TextCraft environment."""

    max_steps: Positive = 100
    """Steps after which an episode is truncated; the longest reference takes 91."""
    many_per_worker: bool = True
    """Instances share a worker process of their box; else each has one."""


class TextworldConfig(Branch):
    """The TextWorld environment."""

    max_steps: Positive = 100
    """Steps after which an episode is truncated."""
    instances_per_box: Positive = 32
    """Most instances in one container; each is a process."""


class WebshopConfig(Branch):
    """The WebShop environment."""

    data: Path | None = None
    """A folder with WebShop's product set; a small set of our own when missing."""
    max_steps: Positive = 50
    """Steps after which an episode is truncated."""
    many_per_worker: bool = True
    """Instances share a worker process of their box; else each has one."""


class EnvironmentsConfig(Branch):
    """Settings of each environment."""

    enabled: tuple[str, ...] | None = None
    """Environments to serve; all that are set up on this machine when missing."""
    packages_dir: Path | None = None
    """Where ``envs setup`` puts packages and data; the user's cache, root's /var/cache, when missing."""
    alfworld: AlfworldConfig = AlfworldConfig()
    """The ALFWorld environment."""
    appworld: AppworldConfig = AppworldConfig()
    """The AppWorld environment."""
    babyai: BabyaiConfig = BabyaiConfig()
    """The BabyAI environment."""
    bfcl: BfclConfig = BfclConfig()
    """The BFCL environment."""
    code: CodeConfig = CodeConfig()
    """The code environment."""
    scienceworld: ScienceworldConfig = ScienceworldConfig()
    """The ScienceWorld environment."""
    textcraft: TextcraftConfig = TextcraftConfig()
    """The TextCraft environment."""
    textworld: TextworldConfig = TextworldConfig()
    """The TextWorld environment."""
    webshop: WebshopConfig = WebshopConfig()
    """The WebShop environment."""
