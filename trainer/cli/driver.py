"""The interface between the commands and the trainer, and its implementation, which imports torch lazily."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeAlias

if TYPE_CHECKING:
    from trainer.batches.simulation import SimulationResult
    from trainer.config import RunConfig, TinyModel
    from trainer.config.stage_selection import StageKind
    from trainer.evaluate.results import EvaluationResult
    from trainer.evolve.history import IterationResult
    from trainer.evolve.listener import EvolutionListener
    from trainer.launch.simulated_model import SimulatedModel
    from trainer.model_gateway.stand_alone.settings import StandAloneSettings
    from trainer.sweep.grid import SweepTrial


OnMetrics: TypeAlias = "Callable[[int, dict[str, float]], None]"
"""Called with a step and its metrics, in the process of the command."""

OnWarning: TypeAlias = "Callable[[str], None]"
"""Called with warnings, such as reports of a stalled run."""

OnReady: TypeAlias = "Callable[[str, str], None]"
"""Called with the gateway's URL and a line about its engine, when it serves."""


class RunSummary(Protocol):
    """The result of a run."""

    @property
    def folder(self) -> Path:
        """The run's folder."""
        ...

    @property
    def last_step(self) -> int:
        """Completed steps, those of the warm start included."""
        ...

    @property
    def before(self) -> EvaluationResult | None:
        """Held-out success before reinforcement learning."""
        ...

    @property
    def after(self) -> EvaluationResult | None:
        """Held-out success at the end."""
        ...

    @property
    def phase_seconds(self) -> Mapping[str, float]:
        """Wall clock by phase, over the run."""
        ...


class EvolutionSummary(Protocol):
    """The result of an evolution."""

    @property
    def folder(self) -> Path:
        """The evolution's folder."""
        ...

    @property
    def kept(self) -> int:
        """The iteration whose model is kept; 0 is the base model."""
        ...

    @property
    def model(self) -> Path:
        """Folder of that model."""
        ...

    @property
    def iterations(self) -> Sequence[IterationResult]:
        """Results of all iterations."""
        ...


class Driver(Protocol):
    """The work behind the commands. All methods raise TrainerError."""

    def usable_gpus(self) -> int:
        """Return the number of GPUs of this machine that a run can use."""
        ...

    def train(
        self, config: RunConfig, *, resume: bool, on_metrics: OnMetrics | None, on_warning: OnWarning
    ) -> RunSummary:
        """Train, or resume an interrupted run."""
        ...

    def train_recorded(
        self,
        kind: StageKind,
        config: RunConfig,
        *,
        resume: bool,
        on_metrics: OnMetrics | None,
        on_warning: OnWarning,
    ) -> RunSummary:
        """Train the stages of a kind alone, or resume an interrupted run of them."""
        ...

    def prepared(self, config: RunConfig) -> RunConfig:
        """Return the run with the recorded data of its stages checked, and their steps counted."""
        ...

    def remove(self, config: RunConfig) -> None:
        """Delete an earlier run of this name."""
        ...

    def evaluate(self, config: RunConfig, model: Path | None) -> EvaluationResult:
        """Evaluate a model on the held-out tasks; the configured one by default."""
        ...

    def evaluate_baseline(self, config: RunConfig, policy: str) -> EvaluationResult:
        """Evaluate a policy of ``sandbox-service run`` on the held-out tasks."""
        ...

    def evolve(self, config: RunConfig, *, resume: bool, listener: EvolutionListener) -> EvolutionSummary:
        """Evolve a model, or resume an interrupted evolution."""
        ...

    def train_trials(
        self,
        run: Path,
        constants: Sequence[str],
        trials: Sequence[SweepTrial],
        root: Path,
        at_once: int | None,
    ) -> dict[str, str]:
        """Train all trials of a run file in a folder, and return the errors of those that failed."""
        ...

    def simulate(self, config: RunConfig, model: SimulatedModel) -> SimulationResult:
        """Play a run's episodes without a model."""
        ...

    def make_model(self, config: TinyModel, folder: Path) -> None:
        """Write a tiny model and its tokenizer."""
        ...

    def serve_gateway(self, settings: StandAloneSettings, on_ready: OnReady) -> None:
        """Serve a model to agents until the process gets a signal to stop."""
        ...

    def serve_reward_model(
        self,
        folder: Path,
        host: str,
        port: int,
        device: str,
        api_key: str | None,
        on_ready: Callable[[str], None],
    ) -> None:
        """Serve a reward model until the process gets a signal to stop."""
        ...


class RealDriver:
    """Imports torch, Ray and vLLM at the first call, so that help and usage errors appear at once."""

    def usable_gpus(self) -> int:
        from trainer.launch.gpu_selection import usable_gpus

        return usable_gpus()

    def train(
        self, config: RunConfig, *, resume: bool, on_metrics: OnMetrics | None, on_warning: OnWarning
    ) -> RunSummary:
        from trainer.launch.run import train

        return train(config, resume=resume, on_metrics=on_metrics, on_warning=on_warning)

    def train_recorded(
        self,
        kind: StageKind,
        config: RunConfig,
        *,
        resume: bool,
        on_metrics: OnMetrics | None,
        on_warning: OnWarning,
    ) -> RunSummary:
        from trainer.launch.recorded_training import RECORDED_TRAINING

        work = RECORDED_TRAINING[kind]
        return work(config, resume=resume, on_metrics=on_metrics, on_warning=on_warning)

    def prepared(self, config: RunConfig) -> RunConfig:
        from trainer.offline.records import with_counted_steps

        return with_counted_steps(config)

    def remove(self, config: RunConfig) -> None:
        from trainer.launch.folder import RunFolder

        RunFolder.remove(config)

    def evaluate(self, config: RunConfig, model: Path | None) -> EvaluationResult:
        from trainer.launch.run import evaluate

        return evaluate(config, model)

    def evaluate_baseline(self, config: RunConfig, policy: str) -> EvaluationResult:
        from trainer.launch.baseline import evaluate_baseline

        return evaluate_baseline(config, policy)

    def evolve(self, config: RunConfig, *, resume: bool, listener: EvolutionListener) -> EvolutionSummary:
        from trainer.evolve.running import evolve

        return evolve(config, resume=resume, listener=listener)

    def train_trials(
        self,
        run: Path,
        constants: Sequence[str],
        trials: Sequence[SweepTrial],
        root: Path,
        at_once: int | None,
    ) -> dict[str, str]:
        from trainer.config.reading import read_run
        from trainer.launch.gpu_selection import on_visible_gpus, usable_gpus
        from trainer.sweep.resources import trial_resources
        from trainer.sweep.trial_process import SweepPlan
        from trainer.sweep.tuning import tune_trials

        configs = {trial.name: read_run(run, [*constants, *trial.overrides]) for trial in trials}
        plan = SweepPlan(
            run,
            tuple(constants),
            root,
            working_folder=Path.cwd(),
            settings={name: config.model_dump_json() for name, config in configs.items()},
        )
        gpus = usable_gpus()
        placed = [on_visible_gpus(config, gpus)[0].hardware for config in configs.values()]
        return tune_trials(plan, trials, trial_resources(placed), at_once=at_once)

    def simulate(self, config: RunConfig, model: SimulatedModel) -> SimulationResult:
        from trainer.launch.simulation import simulate

        return simulate(config, model)

    def make_model(self, config: TinyModel, folder: Path) -> None:
        from trainer.models.tiny import make_tiny

        make_tiny(config, folder)

    def serve_reward_model(
        self,
        folder: Path,
        host: str,
        port: int,
        device: str,
        api_key: str | None,
        on_ready: Callable[[str], None],
    ) -> None:
        from trainer.reward_models.server import RewardServerConfig, run_server

        run_server(RewardServerConfig(folder, host, port, device, api_key), on_ready)

    def serve_gateway(self, settings: StandAloneSettings, on_ready: OnReady) -> None:
        from trainer.model_gateway.stand_alone.service import run_gateway

        run_gateway(settings, on_ready)
