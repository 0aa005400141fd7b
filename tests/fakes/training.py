"""A trainer that does nothing but say what it was asked, and a run that it made up."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

from trainer.batches.simulation import Quantiles, SimulationResult
from trainer.evaluate.results import EvaluationResult, TaskOutcome
from trainer.evolve.history import EvolutionResult, IterationResult
from trainer.evolve.records import Decision, Explored, Selected, Trained
from trainer.launch.baseline_check import check_baseline


def evaluation(when, solved, tasks=10, episodes=1):
    """So many of the tasks solved, the first ones, in each of their episodes."""
    outcomes = tuple(
        TaskOutcome(
            f"t{number}",
            ("easy", "hard")[number % 2],
            episodes,
            episodes * (number < solved),
            float(number < solved),
        )
        for number in range(tasks)
    )
    return EvaluationResult(0, when, "test", outcomes, "code")


@dataclass
class FakeRun:
    folder: Path
    last_step: int = 120
    before: EvaluationResult | None = None
    after: EvaluationResult | None = None
    phase_seconds: dict = field(default_factory=lambda: {"take": 61.0, "update": 3725.0})


class FakeDriver:
    """Keeps the calls; raises ``error`` in place of working, if there is one."""

    def __init__(
        self, error=None, metrics=(), result=None, warnings=(), gpus=0, wrong_name=None, recovered=None
    ):
        self.calls = []
        self.error = error
        self.metrics = metrics
        self.warnings = warnings
        self.result = result
        self.gpus = gpus
        self.wrong_name = wrong_name
        self.recovered = recovered

    def usable_gpus(self):
        return self.gpus

    def _asked(self, verb, *arguments):
        self.calls.append((verb, *arguments))
        if self.error is not None:
            raise self.error

    def train(self, config, *, resume, replace, on_metrics, on_warning):
        self._asked("replace and train" if replace else "train", config, resume, on_metrics is not None)
        for sentence in self.warnings:
            on_warning(sentence)
        for step, metrics in self.metrics:
            on_metrics(step, metrics)
        return FakeRun(config.folder, before=evaluation("before", 2), after=evaluation("after", 9))

    def evolve(self, config, *, resume, replace, listener):
        self._asked("replace and evolve" if replace else "evolve", config, resume)
        for sentence in self.warnings:
            listener.note_warning(sentence)
        listener.begin_phase(1, "explore", "64 tasks, 4 episodes each")
        listener.note_played(32, 64)
        listener.note_step(0, {"loss/sft": 0.5})
        first = evaluation("alone", 2)
        results = [IterationResult(0, None, None, None, first, None)]
        if self.result is not None:
            decision = Decision(True, "kept: +70.0 points", 10, 0.7, 0.4, 1.0)
            explored, selected = Explored("f", 256, 64, 0), Selected(60, 50, {}, 100)
            trained = Trained(str(config.folder / "m"), "base", 40)
            results.append(IterationResult(1, explored, selected, trained, self.result, decision))
            listener.end_iteration(1, self.result, decision)
        return EvolutionResult(config.folder, len(results) - 1, config.folder / "m", results)

    def with_counted_steps(self, config, *, resume):
        return config

    def recover(self, config):
        return self.recovered

    def check_name(self, config, *, resume, replace):
        if self.wrong_name is not None:
            raise self.wrong_name

    def serve_gateway(self, settings, on_ready, on_stop):
        self._asked("serve_gateway", settings)
        on_ready("http://127.0.0.1:8600", "m over /v1/completions")
        on_stop()

    def serve_reward_model(self, config, on_ready, on_stop):
        self._asked("serve_reward_model", config)
        on_ready("http://127.0.0.1:8700")
        on_stop()

    def evaluate(self, config, model, on_warning):
        self._asked("evaluate", config, model)
        for sentence in self.warnings:
            on_warning(sentence)
        if self.result is not None:
            return self.result
        return evaluation("alone", 7, episodes=config.evaluation.episodes)

    def check_baseline(self, config, policy):
        check_baseline(policy, config.rollout, config.evaluation)

    def evaluate_baseline(self, config, policy):
        self._asked("evaluate_baseline", config, policy)
        return replace(evaluation("alone", 3, episodes=config.evaluation.episodes), policy=policy)

    def train_trials(self, run, constants, trials, root, at_once):
        self._asked("sweep", run, tuple(constants), [trial.name for trial in trials], root, at_once)
        root.mkdir(parents=True, exist_ok=True)
        return {}

    def simulate(self, config, model):
        self._asked("simulate", config, model)
        phases = {name: Quantiles(0.5, 2.0) for name in ("waiting", "sampling", "sandbox", "grading")}
        return SimulationResult(
            seconds=10.0,
            steps=config.steps,
            episodes=50,
            success=0.5,
            failures={"sandbox": 2},
            phases=phases,
            take_s=4.0,
            idle_share=0.25,
            staleness=0.5,
        )

    def make_model(self, config, folder):
        self._asked("model", config, folder)
