"""The work behind the commands, which imports torch, Ray and vLLM at the first call, so that help and usage
errors appear at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trainer.batches.simulation import SimulationResult
    from trainer.config import RunConfig, TinyModel
    from trainer.evaluate.results import EvaluationResult
    from trainer.evolve.history import EvolutionResult
    from trainer.evolve.listener import EvolutionListener
    from trainer.launch.following import OnMetrics, OnWarning
    from trainer.launch.run import RunResult
    from trainer.launch.simulated_model import SimulatedModel
    from trainer.model_gateway.stand_alone.settings import StandAloneSettings
    from trainer.reward_models.server_config import RewardServerConfig
    from trainer.sweep.grid import SweepTrial


class Driver:
    """Does what the commands ask for. All methods raise TrainerError."""

    def usable_gpus(self) -> int:
        """Return the number of GPUs of this machine that a run can use."""
        from trainer.launch.gpu_selection import usable_gpus

        return usable_gpus()

    def with_counted_steps(self, config: RunConfig, *, resume: bool) -> RunConfig:
        """Return the run with the recorded data of its stages checked, and their steps counted.

        A run that goes on has the steps that it began with.
        """
        from trainer.launch.folder import with_stored_steps
        from trainer.offline.records import with_counted_steps

        counted = with_counted_steps(config)
        return with_stored_steps(counted) if resume else counted

    def recover(self, config: RunConfig) -> str | None:
        """Put back an earlier run of this name that a killed start set aside; return a sentence about it."""
        from trainer.launch.replacing import recover

        return recover(config)

    def check_name(self, config: RunConfig, *, resume: bool, replace: bool) -> None:
        """Check that a new run's folder is free, or that a run to resume or to replace is there."""
        from trainer.launch.folder import RunFolder

        RunFolder.check_name(config, resume=resume, replace=replace)

    def train(
        self,
        config: RunConfig,
        *,
        resume: bool,
        replace: bool,
        on_metrics: OnMetrics | None,
        on_warning: OnWarning,
    ) -> RunResult:
        """Train, resume an interrupted run, or replace one of the same name."""
        from trainer.launch.run import train

        return train(config, resume=resume, replace=replace, on_metrics=on_metrics, on_warning=on_warning)

    def evolve(
        self, config: RunConfig, *, resume: bool, replace: bool, listener: EvolutionListener
    ) -> EvolutionResult:
        """Evolve a model, resume an interrupted evolution, or replace one of the same name."""
        from trainer.evolve.running import evolve

        return evolve(config, resume=resume, replace=replace, listener=listener)

    def train_trials(
        self,
        run: Path,
        constants: Sequence[str],
        trials: Sequence[SweepTrial],
        root: Path,
        at_once: int | None,
    ) -> dict[str, str]:
        """Train all trials of a run file in a folder, and return the errors of those that failed."""
        from trainer.sweep.running import train_trials

        return train_trials(run, constants, trials, root, at_once)

    def evaluate(self, config: RunConfig, model: Path | None, on_warning: OnWarning) -> EvaluationResult:
        """Evaluate a model on the held-out tasks; the configured one by default."""
        from trainer.launch.run import evaluate

        return evaluate(config, model, on_warning)

    def check_baseline(self, config: RunConfig, policy: str) -> None:
        """Refuse a policy that cannot be evaluated on the run's tasks."""
        from trainer.launch.baseline_check import check_baseline

        check_baseline(policy, config.rollout, config.evaluation)

    def evaluate_baseline(self, config: RunConfig, policy: str) -> EvaluationResult:
        """Evaluate a policy of ``sandbox-service run`` on the held-out tasks."""
        from trainer.launch.baseline import evaluate_baseline

        return evaluate_baseline(config, policy)

    def simulate(self, config: RunConfig, model: SimulatedModel) -> SimulationResult:
        """Play a run's episodes without a model."""
        from trainer.launch.simulation import simulate

        return simulate(config, model)

    def make_model(self, config: TinyModel, folder: Path) -> None:
        """Write a tiny model and its tokenizer."""
        from trainer.models.tiny import make_tiny

        make_tiny(config, folder)

    def serve_gateway(
        self,
        settings: StandAloneSettings,
        on_ready: Callable[[str, str], None],
        on_stop: Callable[[], None],
    ) -> None:
        """Serve a model to agents until the process gets a signal to stop, which calls ``on_stop``.

        ``on_ready`` gets the gateway's URL and a line about its engine.
        """
        from trainer.model_gateway.stand_alone.service import run_gateway

        run_gateway(settings, on_ready, on_stop)

    def serve_reward_model(
        self, config: RewardServerConfig, on_ready: Callable[[str], None], on_stop: Callable[[], None]
    ) -> None:
        """Serve a reward model until the process gets a signal to stop, which calls ``on_stop``.

        ``on_ready`` gets its URL.
        """
        from trainer.reward_models.server import run_server

        run_server(config, on_ready, on_stop)
