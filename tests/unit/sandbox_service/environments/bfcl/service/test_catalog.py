import json

import pytest

from sandbox_contract.messages import Tool
from sandbox_contract.problems import ErrorCode
from sandbox_service.errors import ServiceError

COUNTS = {
    "simple_python": 400,
    "simple_java": 100,
    "simple_javascript": 50,
    "multiple": 200,
    "parallel": 200,
    "parallel_multiple": 200,
    "irrelevance": 240,
    "live_simple": 258,
    "live_multiple": 1053,
    "live_parallel": 16,
    "live_parallel_multiple": 24,
    "live_irrelevance": 884,
    "live_relevance": 16,
    "multi_turn_base": 200,
    "multi_turn_miss_func": 200,
    "multi_turn_miss_param": 200,
    "multi_turn_long_context": 200,
    "memory_kv": 155,
    "memory_rec_sum": 155,
}


def schemas(node):
    yield node
    for each in (*node.get("properties", {}).values(), *([node["items"]] if "items" in node else ())):
        yield from schemas(each)


def test_every_category_is_whole(catalog):
    assert {name: len(catalog.task_ids(name)) for name in COUNTS} == COUNTS


def test_sub_types_are_the_collections_that_can_be_run(catalog):
    sizes = {split.name: split.size for split in catalog.describe().splits}
    assert (sizes["multi_turn"], sizes["single_turn"], sizes["live"], sizes["non_live"]) == (
        800,
        3641,
        2251,
        1390,
    )
    assert (sizes["python"], sizes["non_python"], sizes["all"]) == (3491, 150, 4751)
    assert (sizes["multi_turn_train"], sizes["multi_turn_validation"]) == (720, 80)
    assert sizes["train"] + sizes["validation"] == sizes["all_scoring"]


def test_no_validation_question_is_one_of_the_training_questions(catalog):
    def questions(split):
        tasks = map(catalog.files.task, catalog.task_ids(f"single_turn_{split}"))
        return {said(task) for task in tasks}

    def said(task):
        spoken = [each["content"] for turn in task["turns"] for each in turn if each["role"] == "user"]
        return "".join(filter(str.isalnum, "".join(spoken).casefold()))

    assert not questions("train") & questions("validation")
    # With one more function in the second of each.
    asked = [said(catalog.files.task(task_id)) for task_id in ("simple_python_367", "multiple_186")]
    assert asked[0] == asked[1]


def test_what_the_box_is_sent_is_small_and_without_ground_truth(catalog):
    payload = catalog.payload("multi_turn_long_context_0")
    assert len(json.dumps(payload.task)) < 200
    assert "truth" not in payload.task
    assert payload.grading["truth"][0] == catalog.files.answer("multi_turn_long_context_0")["truth"][0]


def test_tasks_on_the_shelf_hold_no_ground_truth(catalog):
    for task_id in ("multi_turn_base_0", "simple_python_0", "memory_kv_0-customer-0"):
        assert not {"truth", "solution", "path", "ground_truth"} & set(catalog.files.task(task_id))


def test_every_tool_is_a_valid_openai_schema(catalog):
    files = catalog.files
    single = (files.task(task_id)["tools"] for task_id in catalog.task_ids("single_turn"))
    kinds = {"string", "integer", "number", "boolean", "array", "object"}
    for tools in (*files.tools.values(), *single):
        names = [tool["function"]["name"] for tool in tools]
        assert len(names) == len(set(names))
        for tool in tools:
            Tool.model_validate(tool)
            assert tool["function"]["name"].replace("_", "").replace("-", "").isalnum()
            assert len(tool["function"]["name"]) <= 64
            for node in schemas(tool["function"]["parameters"]):
                assert node["type"] in kinds
                assert isinstance(node.get("required", []), list)


def test_unknown_splits_and_tasks_have_their_codes(catalog):
    with pytest.raises(ServiceError) as split:
        catalog.task_ids("no_such_split")
    with pytest.raises(ServiceError) as task:
        catalog.payload("multi_turn_base_1000")
    assert (split.value.code, task.value.code) == (ErrorCode.UNKNOWN_SPLIT, ErrorCode.UNKNOWN_TASK)
    assert "multi_turn_train" in split.value.detail


def test_a_reference_calls_natively_and_fits_the_step_limit(catalog):
    reference = catalog.reference("multi_turn_base_0")
    assert len(reference) <= catalog.payload("multi_turn_base_0").max_steps
    call = reference[0]["tool_calls"][0]
    assert (call["type"], call["function"]["name"]) == ("function", "cd")
    assert json.loads(call["function"]["arguments"]) == {"folder": "document"}
    assert reference[1] == {"role": "assistant", "content": "Done."}
