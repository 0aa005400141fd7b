"""Settings of the environments: one branch each."""

from __future__ import annotations

from pathlib import Path

from .base import Branch, Positive, Seconds

__all__ = ["CodeConfig", "EnvironmentsConfig", "WebshopConfig"]


class CodeConfig(Branch):
    """The code environment."""

    mbpp_path: Path | None = None
    """An MBPP JSONL file; adds the ``mbpp`` splits."""
    task_files: tuple[Path, ...] = ()
    """JSONL files of own tasks; each adds a split named after the file."""
    max_steps: Positive = 30
    """Steps after which an episode is truncated."""
    tool_timeout_s: Seconds = 30.0
    """Deadline of one tool call."""
    max_output_bytes: Positive = 32 * 1024
    """Output of one tool call that the agent sees."""


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
    code: CodeConfig = CodeConfig()
    """The code environment."""
    webshop: WebshopConfig = WebshopConfig()
    """The WebShop environment."""
