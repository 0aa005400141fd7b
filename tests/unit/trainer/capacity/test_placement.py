from dataclasses import replace

from trainer.capacity.machine import GIB, Machine
from trainer.capacity.placement import gpu_slots
from trainer.config import RunConfig

EIGHT = Machine(gpus=8, gpu_memory=80 * GIB)


def run(**branches):
    return RunConfig.model_validate(branches)


def slots(config, machine=EIGHT):
    return [
        (slot.machine, slot.gpu, slot.workers, slot.engines)
        for slot in gpu_slots(config.hardware, "cuda", machine)
    ]


def test_learners_and_engines_have_gpus_of_their_own():
    config = run(learner={"workers": 2, "gpus": 1}, engine={"count": 2})
    assert slots(config) == [
        (0, 0, (0,), ()),
        (0, 1, (1,), ()),
        (0, 2, (), (0,)),
        (0, 3, (), (1,)),
    ]


def test_shares_that_add_up_to_one_are_on_the_same_gpus():
    config = run(learner={"workers": 2, "gpus": 0.6}, engine={"count": 2, "gpus": 0.4})
    assert slots(config) == [(0, 0, (0,), (0,)), (0, 1, (1,), (1,))]


def test_tensor_parallel_engines_share_the_gpus_of_as_many_workers():
    config = run(learner={"workers": 4, "gpus": 0.6}, engine={"count": 2, "gpus": 0.4, "tensor_parallel": 2})
    assert slots(config) == [
        (0, 0, (0,), (0,)),
        (0, 1, (1,), (0,)),
        (0, 2, (2,), (1,)),
        (0, 3, (3,), (1,)),
    ]


def test_tensor_parallel_engines_have_a_gpu_for_each_part_and_machines_follow_each_other():
    config = run(learner={"workers": 8, "gpus": 1}, engine={"count": 4, "tensor_parallel": 2})
    placed = slots(config, replace(EIGHT, count=2))
    assert [slot[:2] for slot in placed] == [(machine, gpu) for machine in range(2) for gpu in range(8)]
    assert placed[8:10] == [(1, 0, (), (0,)), (1, 1, (), (0,))]
