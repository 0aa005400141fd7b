"""``sandbox-trainer reward-model``: serve reward models."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .options import driver_of
from .terminal import explained, notes, results

HELP = """Serve reward models, which score episodes and their steps.

Examples:

    sandbox-trainer reward-model serve FOLDER --port 8700
"""
_MOST_PORT = 65_535


def serve(
    context: typer.Context,
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Folder of the reward model.")],
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=_MOST_PORT, help="Port; 0 takes any free one.")] = 8700,
    device: Annotated[str, typer.Option(help="Device that computes, such as cpu or cuda:0.")] = "cpu",
    api_key: Annotated[
        str | None,
        typer.Option(
            envvar="REWARD_MODEL_API_KEY", metavar="KEY", help="Secret that callers send as bearer token."
        ),
    ] = None,
) -> None:
    """Serve a reward model over HTTP until Ctrl-C: scores in batches, a description, and health.

    The folder is any model for sequence or token classification in Hugging Face's format. Runs
    use it by its URL, in reward.learned.models or reward.process.models.

    Examples:

        sandbox-trainer reward-model serve models/reward

        curl -s localhost:8700/v1/scores -d '{"inputs":[{"messages":[{"role":"user","content":"1+1?"},
        {"role":"assistant","content":"2"}]}]}'
    """
    with explained():
        driver_of(context).serve_reward_model(folder, host, port, device, api_key, _show_ready)
    notes().print("stopped")


def _show_ready(url: str) -> None:
    results().print(f"ready: {url}", markup=False, soft_wrap=True)
    notes().print("Ctrl-C stops")
