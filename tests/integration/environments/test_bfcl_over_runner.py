"""BFCL episodes in a real runner, in a shared worker and in workers of their own."""

import json

import pytest

from sandbox_service.config import BfclConfig
from sandbox_service.environments.bfcl.service.catalog import BfclCatalog
from sandbox_service.environments.provisions import GROUP, find
from sandbox_service.sandboxes.content import box_files
from sandbox_service.wire.frames import Op
from tests.harness.runner_box import runner_box, uid_drop_missing

TASKS = (
    "multi_turn_base_0",
    "multi_turn_miss_func_1",
    "multi_turn_miss_param_2",
    "multi_turn_long_context_3",
    "simple_java_0",
    "live_irrelevance_0-0-0",
    "memory_kv_0-customer-0",
)
PRIVILEGED = pytest.param(
    True, marks=pytest.mark.skipif(uid_drop_missing() is not None, reason=str(uid_drop_missing()))
)


@pytest.fixture(scope="module")
def catalog():
    found = find("bfcl")
    if found is None:
        pytest.skip("bfcl is not set up; run sandbox-service envs setup bfcl")
    return BfclCatalog(BfclConfig(), found)


class Box:
    def __init__(self, box, catalog) -> None:
        self.box = box
        self.catalog = catalog

    def create(self, name, task_id):
        payload = self.catalog.payload(task_id)
        body = {"environment": "bfcl", "task_id": task_id, "task": payload.task, "params": {}}
        meta = {"deadline_s": 20, "seed": 1, "max_steps": payload.max_steps}
        return self._answered(self.box.request(Op.CREATE, name, meta=meta, body=body))

    def play(self, name, messages):
        for message in messages:
            body = {"message": message}
            self._answered(self.box.request(Op.STEP, name, meta={"deadline_s": 20}, body=body))

    def score(self, name, task_id):
        body = {"params": {"sparse": True}, "grading": self.catalog.payload(task_id).grading}
        return self._answered(self.box.request(Op.EVALUATE, name, meta={"deadline_s": 20}, body=body))[
            "score"
        ]

    def _answered(self, frame):
        assert frame.op is Op.REPLY, frame.body
        return json.loads(frame.body)


@pytest.fixture(params=[True, False], ids=["many a worker", "one a worker"])
def many(request):
    return request.param


@pytest.fixture(params=[False, PRIVILEGED], ids=["one user", "own user ids"])
def box(request, many, catalog):
    provisions = catalog.spec.provisions
    with runner_box(
        catalog.spec.world_module,
        drop=request.param,
        many_per_worker=many,
        packages=str(provisions.packages),
        data=str(provisions.data),
        env_group=GROUP if request.param else 0,
    ) as made:
        yield Box(made, catalog)


def test_references_are_solved_side_by_side(box, catalog):
    for round_ in range(2):
        for task_id in TASKS:
            opening = box.create(f"{task_id}.{round_}", task_id)
            assert opening["observation"]["messages"][-1]["role"] == "user"
    for round_ in range(2):
        for task_id in TASKS:
            reference = catalog.reference(task_id)
            box.play(f"{task_id}.{round_}", reference[: len(reference) - round_])
    assert [box.score(f"{task_id}.0", task_id) for task_id in TASKS] == [1.0] * len(TASKS)
    assert [box.score(f"{task_id}.1", task_id) for task_id in TASKS] == [0.0] * len(TASKS)


def test_a_copy_finishes_what_its_source_began(box, catalog):
    task_id = "multi_turn_base_0"
    reference = catalog.reference(task_id)
    box.create("source", task_id)
    box.play("source", reference[:3])
    reply = box.box.request(Op.FORK, "source", meta={"copy_id": "copy", "deadline_s": 20})
    assert reply.op is Op.REPLY
    box.play("copy", reference[3:])
    assert (box.score("copy", task_id), box.score("source", task_id)) == (1.0, 0.0)


def test_catalog_and_preparation_stay_out_of_the_box(catalog):
    files = [path for path in box_files(catalog.spec) if "/bfcl/" in path]
    assert any(path.endswith("bfcl/box/world.py") for path in files)
    assert not [path for path in files if "/bfcl/box/" not in path and not path.endswith("__init__.py")]
