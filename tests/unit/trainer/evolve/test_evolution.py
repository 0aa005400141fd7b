import math
from dataclasses import replace
from pathlib import Path

import pytest
from pydantic import ValidationError

from tests.fakes.evolution import FakeEvolutionListener, FakePhases
from trainer.config import RunConfig
from trainer.errors import CheckpointError, TrainerError
from trainer.evolve.evolution import Evolution, KeptModel
from trainer.evolve.folder import EvolutionFolder
from trainer.evolve.history import read_history
from trainer.evolve.records import Selected


def config(warm_start: Path | None = None, **evolve: object) -> RunConfig:
    run: dict[str, object] = {"evaluation": {"splits": ["test"]}, "evolve": {"iterations": 2, **evolve}}
    if warm_start is not None:
        run["warm_start"] = {"demonstrations": warm_start}
    return RunConfig.model_validate(run)


def evolution(run: RunConfig, folder: Path, phases: FakePhases) -> KeptModel:
    listener = FakeEvolutionListener()
    return Evolution(run.evolution_settings, EvolutionFolder(folder), phases, listener, lambda: None).run()


def test_each_iteration_explores_with_the_kept_model_and_trains_from_the_base(tmp_path: Path) -> None:
    phases = FakePhases([2, 5, 8])
    kept = evolution(config(), tmp_path, phases)
    assert phases.calls == [
        ("0.base",),
        ("0.evaluate", "base"),
        ("1.explore", "base"),
        ("1.train", "raw"),
        ("1.evaluate", "model 1"),
        ("2.explore", "model 1"),
        ("2.train", "raw"),
        ("2.evaluate", "model 2"),
    ]
    assert (kept.iteration, kept.model) == (2, Path("model 2"))
    assert (tmp_path / "model").readlink() == Path("model 2")


def test_training_may_go_on_from_the_current_model(tmp_path: Path) -> None:
    phases = FakePhases([2, 5, 8])
    evolution(config(train={"start": "current"}), tmp_path, phases)
    assert [call for call in phases.calls if "train" in call[0]] == [
        ("1.train", "base"),
        ("2.train", "model 1"),
    ]


def test_a_clearly_worse_model_is_rolled_back_and_the_next_iteration_explores_with_the_kept_one(
    tmp_path: Path,
) -> None:
    phases = FakePhases([9, 2, 9])
    kept = evolution(config(), tmp_path, phases)
    assert ("2.explore", "base") in phases.calls
    assert kept.iteration == 2
    assert [result.verdict for result in read_history(EvolutionFolder(tmp_path))] == [
        "base",
        "rolled back",
        "kept",
    ]


def test_after_too_many_roll_backs_in_a_row_the_evolution_ends(tmp_path: Path) -> None:
    phases = FakePhases([9, 2, 2, 9])
    kept = evolution(config(iterations=3, patience=2), tmp_path, phases)
    assert kept.iteration == 0
    assert phases.calls[-1] == ("2.evaluate", "model 2")


def test_an_exploration_without_a_solved_episode_trains_nothing(tmp_path: Path) -> None:
    phases = FakePhases([2, 5], scores=[0.0, 0.5])
    kept = evolution(config(iterations=1), tmp_path, phases)
    assert kept.iteration == 0
    assert [call[0] for call in phases.calls] == ["0.base", "0.evaluate", "1.explore"]
    decision = read_history(EvolutionFolder(tmp_path))[1].decision
    assert decision is not None
    assert "none of 2 explored episodes was selected" in decision.reason


def test_selected_episodes_are_merged_with_the_demonstrations_that_were_trained_on(tmp_path: Path) -> None:
    phases = FakePhases([2, 5, 8], demonstrations=2)
    evolution(config(warm_start=Path("d.jsonl")), tmp_path, phases)
    assert phases.trained_on == {1: ["d0", "d1", "1/0.0"], 2: ["d0", "d1", "2/0.0"]}


def test_demonstrations_may_be_left_out_and_earlier_episodes_taken_along(tmp_path: Path) -> None:
    phases = FakePhases([5, 1, 6, 8], demonstrations=2)
    train = {"demonstrations": False, "earlier": True}
    evolution(config(Path("d.jsonl"), iterations=3, train=train), tmp_path, phases)
    # Iteration 1 was rolled back, and what it trained on is not used again.
    assert phases.trained_on == {1: ["1/0.0"], 2: ["2/0.0"], 3: ["2/0.0", "3/0.0"]}


def test_weights_grow_with_the_values(tmp_path: Path) -> None:
    phases = FakePhases([2, 5], scores=[1.0, 0.0], demonstrations=1)
    train = {"method": {"kind": "weighted", "temperature": 0.5}}
    evolution(config(Path("d.jsonl"), iterations=1, train=train, select={"threshold": 0.0}), tmp_path, phases)
    demonstration, best, worst = phases.weights[1]
    assert demonstration == 1.0
    assert best + worst == pytest.approx(2.0)
    assert best / worst == pytest.approx(math.exp(1 / 0.5))


PREFERENCES = {"kind": "preferences", "loss": {"kind": "ipo"}}


@pytest.mark.parametrize(
    ("method", "tasks"),
    [
        (PREFERENCES, ["t0", "t1"]),
        ({**PREFERENCES, "margin": 0.6}, ["t1"]),
        ({**PREFERENCES, "loss": {"kind": "kto"}}, ["t0", "t0", "t1", "t1"]),
    ],
    ids=["pairs", "margin", "kto"],
)
def test_preferences_are_between_the_explored_episodes_of_a_task(
    tmp_path: Path, method: dict[str, object], tasks: list[str]
) -> None:
    phases = FakePhases([2, 5], scores=[1.0, 0.0], attempts=[0.7])
    train = {"method": method, "start": "current"}
    evolution(config(iterations=1, train=train), tmp_path, phases)
    assert phases.trained_on == {1: tasks}
    selected = EvolutionFolder(tmp_path).open_iteration(1).read(Selected)
    assert selected is not None
    assert (selected.total, selected.tasks) == (len(tasks), len(set(tasks)))


def test_an_exploration_without_a_pair_trains_nothing_and_says_why(tmp_path: Path) -> None:
    phases = FakePhases([2, 5], scores=[1.0, 0.0])
    train = {"method": PREFERENCES, "start": "current"}
    evolution(config(iterations=1, train=train), tmp_path, phases)
    assert phases.trained_on == {}
    selected = EvolutionFolder(tmp_path).open_iteration(1).read(Selected)
    assert selected is not None
    assert "2 tasks have a single episode" in next(iter(selected.left_out))
    decision = read_history(EvolutionFolder(tmp_path))[1].decision
    assert decision is not None
    assert "lower evolve.train.method.margin" in decision.reason


@pytest.mark.parametrize(
    ("train", "why"),
    [
        ({"method": PREFERENCES}, r"set evolve\.train\.start=current"),
        ({"method": PREFERENCES, "start": "current", "earlier": True}, "those explored now"),
        ({"method": {"kind": "dpo"}}, "method"),
    ],
    ids=["from-base", "earlier", "unknown"],
)
def test_a_method_that_cannot_train_so_is_refused(train: dict[str, object], why: str) -> None:
    with pytest.raises(ValidationError, match=why):
        config(train=train)


@pytest.mark.parametrize(
    "train", [{}, {"method": PREFERENCES, "start": "current"}], ids=["sft", "preferences"]
)
@pytest.mark.parametrize(
    "phase",
    ["0.base", "0.evaluate", "1.explore", "1.train", "1.evaluate", "2.explore", "2.train", "2.evaluate"],
)
def test_an_evolution_that_was_interrupted_goes_on_in_that_phase(
    tmp_path: Path, phase: str, train: dict[str, object]
) -> None:
    whole = FakePhases([2, 5, 8], demonstrations=1, attempts=[0.5])
    run = config(warm_start=Path("d.jsonl"), train=train)
    expected = evolution(run, tmp_path / "whole", whole) if _made(tmp_path / "whole") else None
    phases = FakePhases([2, 5, 8], demonstrations=1, attempts=[0.5], interrupted_in=phase)
    folder = _made(tmp_path / "interrupted")
    with pytest.raises(KeyboardInterrupt):
        evolution(run, folder, phases)
    assert evolution(run, folder, phases) == expected
    assert phases.calls == whole.calls  # nothing was done twice
    assert phases.trained_on == whole.trained_on


@pytest.mark.parametrize("lost", [10, 9, 2])
def test_an_evaluation_that_lost_too_many_tasks_is_repeated_on_resume(tmp_path: Path, lost: int) -> None:
    phases = FakePhases([2, 5], lost_in="1.evaluate", lost_tasks=lost)
    run = config(iterations=1)
    with pytest.raises(TrainerError, match=rf"iteration 1: {lost} of 10 held-out tasks got no.*--resume"):
        evolution(run, tmp_path, phases)
    assert evolution(run, tmp_path, phases).iteration == 1
    assert [call[0] for call in phases.calls] == [
        "0.base",
        "0.evaluate",
        "1.explore",
        "1.train",
        "1.evaluate",
        "1.evaluate",
    ]


def test_a_task_in_ten_may_be_lost(tmp_path: Path) -> None:
    phases = FakePhases([2, 5], lost_in="1.evaluate", lost_tasks=1)
    assert evolution(config(iterations=1), tmp_path, phases).iteration == 1
    decision = read_history(EvolutionFolder(tmp_path))[1].decision
    assert decision is not None
    assert decision.tasks == 9


def test_the_kept_model_is_evaluated_again_where_too_many_tasks_were_lost(tmp_path: Path) -> None:
    phases = FakePhases([2, 5, 8])
    evolution(config(iterations=1), tmp_path, phases)
    iteration = EvolutionFolder(tmp_path).open_iteration(1)
    known = iteration.read_evaluation()
    assert known is not None
    lost = (replace(task, episodes=0, successes=0, failures=1) for task in known.tasks[1:])
    iteration.write_evaluation(replace(known, tasks=(known.tasks[0], *lost)))
    done = len(phases.calls)
    assert evolution(config(iterations=2), tmp_path, phases).iteration == 2
    assert [call[0] for call in phases.calls[done:]] == [
        "1.evaluate",
        "2.explore",
        "2.train",
        "2.evaluate",
    ]


def test_a_finished_evolution_can_be_given_more_iterations(tmp_path: Path) -> None:
    phases = FakePhases([2, 5, 8])
    evolution(config(iterations=1), tmp_path, phases)
    done = list(phases.calls)
    evolution(config(iterations=2), tmp_path, phases)
    assert [call[0] for call in phases.calls[len(done) :]] == ["2.explore", "2.train", "2.evaluate"]


def test_a_result_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    evolution(config(), tmp_path, FakePhases([2, 5, 8]))
    file = tmp_path / "iteration_1" / "selected.json"
    file.write_text("{")
    with pytest.raises(CheckpointError, match=r"selected\.json is not the result of a phase"):
        EvolutionFolder(tmp_path).iterations()[1].read(Selected)


def _made(folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    return folder
