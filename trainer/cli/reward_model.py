"""``sandbox-trainer reward-model``: train reward models, and serve them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from trainer.config.reading import read_run
from trainer.config.stage_selection import only_stages
from trainer.reward_models.server_config import RewardServerConfig

from .options import ForceOption, JsonOption, OverridesArgument, RunArgument, driver_of
from .terminal import explained, note_stop, notes, results
from .train import DataOption, ResumeOption, run_training

if TYPE_CHECKING:
    from trainer.config.stage_selection import StageKind


HELP = """Train reward models, which score episodes, and serve them.

Examples:

    sandbox-trainer reward-model train RUN.toml --data pairs.jsonl

    sandbox-trainer reward-model serve FOLDER --port 8700
"""
_MOST_PORT = 65_535


def train(
    context: typer.Context,
    run: RunArgument,
    overrides: OverridesArgument = None,
    data: DataOption = None,
    of_steps: Annotated[
        bool, typer.Option("--steps", help="Train process reward models, which score steps.")
    ] = False,
    resume: ResumeOption = False,
    force: ForceOption = False,
    as_json: JsonOption = False,
) -> None:
    """Run only the stages of kind reward_model: a Bradley-Terry model of pairs of completions.

    With --steps, those of kind process_reward_model: a model of steps, of episodes with labelled steps. The
    data are the stage's files or those that --data names. The reward model is in the run's folder, under
    reward_models, by the stage's name.

    Examples:

        sandbox-trainer reward-model train deploy/runs/pipeline_cpu.toml name=judge

        sandbox-trainer reward-model train RUN.toml --data pairs.jsonl

        sandbox-trainer reward-model train RUN.toml --steps --data steps.jsonl
    """
    kind: StageKind = "process_reward_model" if of_steps else "reward_model"
    with explained():
        config = only_stages(read_run(run, overrides or ()), kind, data or ())
    run_training(driver_of(context), config, run, resume=resume, force=force, as_json=as_json)


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

    The folder is one that a stage of kind reward_model has written, or any model for sequence or token
    classification in Hugging Face's format. Runs use it by its URL, in
    reward.learned.models or reward.process.models.

    Examples:

        sandbox-trainer reward-model serve models/reward

        curl -s localhost:8700/v1/scores -d '{"inputs":[{"messages":[{"role":"user","content":"1+1?"},
        {"role":"assistant","content":"2"}]}]}'
    """
    with explained():
        config = RewardServerConfig(folder, host, port, device, api_key)
        driver_of(context).serve_reward_model(config, _show_ready, note_stop)
    notes().print("stopped")


def _show_ready(url: str) -> None:
    results().print(f"ready: {url}", markup=False, soft_wrap=True)
    notes().print("Ctrl-C stops")
