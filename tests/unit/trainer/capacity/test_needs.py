"""A teacher on the learner's workers is a part of what they need."""

import pytest

from tests.harness.learning import load_model, run_config, small_model
from trainer.capacity.machine import GIB, Machine
from trainer.capacity.plan import capacity_plan
from trainer.config import RunConfig
from trainer.errors import ConfigError
from trainer.update.memory import scoring_memory, shape_of
from trainer.update.mesh import Mesh
from trainer.update.teacher import scoring_settings

EIGHT = Machine(gpus=8, gpu_memory=80 * GIB)
QWEN = {"kind": "pretrained", "path": "Qwen/Qwen3-4B-Instruct-2507"}
TEACHER = {"kind": "model", "path": "Qwen/Qwen3-32B"}


def distilled(teacher=TEACHER, estimate="sampled", **learner):
    learner = {"workers": 4, "gpus": 1, "sharding": "fsdp2", "gradient_checkpointing": True} | learner
    return RunConfig.model_validate(
        {
            "model": QWEN,
            "rollout": {"max_context_tokens": 8192},
            "learner": learner,
            "engine": {"count": 4, "eager": False},
            "algorithm": {"distillation": {"teacher": teacher, "estimate": estimate}} if teacher else {},
        }
    )


def learner_of(plan):
    (learner, _) = plan.groups
    return learner


def test_a_teachers_weights_are_divided_among_the_workers_beside_those_of_the_model():
    plain, taught = capacity_plan(distilled(None), EIGHT), capacity_plan(distilled(), EIGHT)
    parameters = 32.8e9
    assert learner_of(taught).parts["teacher"] == pytest.approx(4 * parameters / 4, rel=0.01)
    assert "teacher" not in learner_of(plain).parts
    grown = learner_of(taught).total - learner_of(plain).total
    assert grown >= learner_of(taught).parts["teacher"]
    assert taught.storage.disk["the teacher from the hub"] == pytest.approx(2 * parameters, rel=0.01)


def test_whole_distributions_of_a_teacher_take_its_logits_beside_those_of_the_model():
    sampled, exact = (capacity_plan(distilled(estimate=estimate), EIGHT) for estimate in ("sampled", "exact"))
    words, tokens = 151_936, 8192
    grown = learner_of(exact).total - learner_of(sampled).total
    assert 2 * tokens * words <= grown <= 2 * 2 * tokens * words


def test_a_teacher_on_a_server_takes_no_memory_here():
    server = {"kind": "server", "base_url": "http://127.0.0.1:8000/v1", "model": "teacher"}
    plan, plain = capacity_plan(distilled(server), EIGHT), capacity_plan(distilled(None), EIGHT)
    assert learner_of(plan) == learner_of(plain)


def test_offloaded_parameters_of_a_teacher_are_in_host_memory():
    offloaded = {"offload": "parameters"}
    plan = capacity_plan(distilled(**offloaded), EIGHT)
    plain = capacity_plan(distilled(None, **offloaded), EIGHT)
    assert "teacher" not in learner_of(plan).parts
    assert plan.host["learner"] - plain.host["learner"] == pytest.approx(4 * 32.8e9, rel=0.01)


def test_a_teacher_is_as_large_as_the_weights_that_are_loaded(tmp_path):
    folder = small_model(tmp_path / "teacher", hidden=64)
    settings = scoring_settings(run_config().learner_settings)
    shape = shape_of(folder, settings)
    found = scoring_memory(shape, settings.learner, Mesh.of(settings.learner, 0, 1), half=False, tokens=48)
    core = load_model(folder, settings)
    assert found.weights == sum(each.nbytes for each in core.parameters())
    assert (found.gradients, found.moments, found.reference) == (0, 0, 0)


def test_a_teacher_that_does_not_fit_is_told_with_what_to_change():
    plan = capacity_plan(distilled(workers=1), Machine(gpus=5, gpu_memory=80 * GIB))
    assert any("most of it is teacher" in each and "teacher.kind=server)" in each for each in plan.problems)
    exact = capacity_plan(distilled(estimate="exact"), Machine(gpus=8, gpu_memory=24 * GIB))
    assert any("teacher.kind=server with estimate=sampled" in each for each in exact.problems)


def test_a_teacher_that_is_not_there_is_named_by_its_setting():
    missing = {"kind": "model", "path": "./no/such/teacher"}
    with pytest.raises(ConfigError, match=r"algorithm\.distillation\.teacher\.path: \./no/such/teacher is"):
        capacity_plan(distilled(missing), EIGHT)


def staged(*stages, **learner):
    """A run of stages on given data, on four workers."""
    learner = {"workers": 4, "gpus": 1, "sharding": "fsdp2", "gradient_checkpointing": True} | learner
    data = {"data": {"files": ["rows.jsonl"]}, "epochs": 1.0}
    named = [{**data, **stage, "name": f"stage-{place}"} for place, stage in enumerate(stages)]
    return RunConfig.model_validate(
        {"model": QWEN, "learner": learner, "stages": named} | {"rollout": {"max_context_tokens": 8192}}
    )


ORPO = {"kind": "preferences", "loss": {"kind": "orpo"}}
PARAMETERS = 4.02e9


@pytest.mark.parametrize(
    "stage", [{"kind": "preferences"}, {"kind": "reward_model"}], ids=["compared with", "gone back to"]
)
def test_the_copy_of_the_model_that_a_stage_keeps_is_in_memory_and_in_checkpoints(stage):
    plain, kept = capacity_plan(staged(ORPO), EIGHT), capacity_plan(staged(ORPO, stage), EIGHT)
    assert "reference" not in plain.groups[0].parts
    assert kept.groups[0].parts["reference"] == pytest.approx(4 * PARAMETERS / 4, rel=0.01)
    copy = 4 * PARAMETERS * (RunConfig().checkpoint.keep + 1)
    assert kept.storage.disk["checkpoints"] - plain.storage.disk["checkpoints"] == pytest.approx(
        copy, rel=0.01
    )


def test_a_copy_for_reinforcement_learning_is_not_kept_by_a_run_without_it():
    config = staged(ORPO).model_copy(
        update={"algorithm": RunConfig.model_validate({"algorithm": {"kl": {"place": "loss"}}}).algorithm}
    )
    assert "reference" not in capacity_plan(config, EIGHT).groups[0].parts


def test_moments_are_those_of_the_stage_whose_optimizer_keeps_most():
    small = {"optimizer": {"moments": "8bit"}}
    whole, packed = (
        capacity_plan(staged(ORPO | own, **small), EIGHT).groups[0].parts["Adam's moments"]
        for own in ({}, small)
    )
    assert whole == pytest.approx(8 * PARAMETERS / 4, rel=0.01)
    assert packed < whole / 3
    mixed = capacity_plan(staged(ORPO | small, {"kind": "sft"}), EIGHT)
    assert mixed.groups[0].parts["Adam's moments"] == whole


@pytest.mark.parametrize("offload", ["none", "parameters"])
def test_memory_is_that_of_the_stage_that_has_most_on_the_gpu_and_of_the_one_that_has_most_beside(offload):
    stages = ({"kind": "preferences"}, {"kind": "sft"})
    plans = [
        capacity_plan(staged(*each, offload=offload), EIGHT) for each in (stages, stages[:1], stages[1:])
    ]
    (mixed, *alone) = ((plan.groups[0].total, plan.host["learner"]) for plan in plans)
    assert mixed == tuple(max(pair) for pair in zip(*alone, strict=True))


def test_a_shard_is_that_of_the_fewest_workers_and_a_machine_holds_the_most():
    few, many, elastic = (capacity_plan(distilled(workers=number), EIGHT) for number in (2, 4, (2, 4)))
    assert [len(plan.groups[0].slots) for plan in (few, many, elastic)] == [2, 4, 4]
    assert elastic.groups[0].parts == few.groups[0].parts
    assert elastic.host["learner"] == many.host["learner"]
    assert elastic.storage == many.storage


def test_fewest_workers_that_are_too_few_are_told():
    plan = capacity_plan(distilled(None, workers=(1, 4)), Machine(gpus=8, gpu_memory=48 * GIB))
    assert any("raise learner.workers" in each for each in plan.problems)
