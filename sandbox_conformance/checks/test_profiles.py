"""The description of an environment, and the opening of its episodes."""

from __future__ import annotations

import re

import pytest
from jsonschema import Draft202012Validator

from sandbox_client.errors import NotFoundError, RequestError
from sandbox_conformance.repetition import compare, compared_tasks, digest, groups_of, leaked_tasks
from sandbox_conformance.subject import SEED, Subject
from sandbox_contract.problems import ErrorCode
from sandbox_contract.texts import is_dialogue, needs_texts

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(600)]

_TOOL_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_MOST_OPENED = 120
"""Tasks whose openings are compared."""


async def test_the_descriptor_is_complete_and_true(subject: Subject) -> None:
    told, spec = subject.described, subject.catalog.spec
    assert told.name == subject.name == spec.name
    assert told.description.strip()
    assert told.action_format.strip()
    assert told.max_steps >= 1
    assert told.reward_range[0] < told.reward_range[1]
    capabilities = told.capabilities
    assert capabilities.agent_code == spec.agent_code
    assert capabilities.files == spec.agent_code
    assert capabilities.agents == spec.runs_agents
    assert capabilities.fork == spec.fork
    assert capabilities.deterministic == spec.deterministic
    assert capabilities.many_per_worker == spec.many_per_worker


async def test_the_create_parameters_have_a_json_schema_that_is_closed(subject: Subject) -> None:
    schema = subject.described.params
    Draft202012Validator.check_schema(schema)
    assert schema["type"] == "object"
    assert schema["additionalProperties"] is False


async def test_every_split_has_as_many_different_tasks_as_the_descriptor_says(subject: Subject) -> None:
    names = [split.name for split in subject.described.splits]
    assert len(set(names)) == len(names) > 0
    assert subject.described.default_split in names
    for split in subject.described.splits:
        profile = await subject.client.get_env_profile(subject.name, split.name)
        assert (profile.split, profile.total) == (split.name, split.size)
        assert len(set(profile.task_ids)) == len(profile.task_ids) == split.size > 0


async def test_no_task_of_a_training_split_is_in_a_held_out_one(subject: Subject) -> None:
    assert leaked_tasks(subject.catalog) == {}


async def test_no_task_repeats_another_one(subject: Subject) -> None:
    found = compare(subject.catalog, compared_tasks(subject.catalog))
    assert found.equal == [], "these tasks have one payload; give each id a task of its own"
    if subject.catalog.spec.repeats:
        pytest.skip(f"tasks of {subject.name} may repeat each other: {subject.catalog.spec.repeats}")
    keyed = [(number, task_id) for number, group in enumerate(found.alike) for task_id in group]
    openings = []
    for number, task_id in keyed[:_MOST_OPENED]:
        async with subject.episode(task_id) as episode:
            shown = (*episode.observation.messages, *episode.tools)
        openings.append((digest(number, *(part.model_dump(mode="json") for part in shown)), task_id))
    assert groups_of(openings) == [], "these tasks open alike, and have one solution"


async def test_the_order_of_tasks_is_fixed(subject: Subject) -> None:
    for split in subject.described.splits:
        first, again = [await subject.client.get_env_profile(subject.name, split.name) for _ in range(2)]
        assert first == again
        assert list(first.task_ids) == list(subject.catalog.task_ids(split.name))


async def test_pages_of_a_split_join_up_to_the_whole(subject: Subject) -> None:
    whole = await subject.client.get_env_profile(subject.name)
    size = max(1, whole.total // 3)
    paged: list[str] = []
    for offset in range(0, whole.total, size):
        page = await subject.client.get_env_profile(subject.name, offset=offset, limit=size)
        assert page.total == whole.total
        paged += page.task_ids
    assert tuple(paged) == whole.task_ids
    beyond = await subject.client.get_env_profile(subject.name, offset=whole.total, limit=1)
    assert beyond.task_ids == ()


async def test_the_default_split_is_what_no_split_means(subject: Subject) -> None:
    unnamed = await subject.client.get_env_profile(subject.name)
    assert unnamed == await subject.client.get_env_profile(subject.name, subject.described.default_split)


async def test_an_unknown_split_is_refused_by_name(subject: Subject) -> None:
    with pytest.raises(NotFoundError, match="no_such_split") as caught:
        await subject.client.get_env_profile(subject.name, "no_such_split")
    assert caught.value.code == ErrorCode.UNKNOWN_SPLIT


async def test_an_unknown_task_is_refused_by_name(subject: Subject) -> None:
    with pytest.raises(NotFoundError, match="no_such_task") as caught:
        await subject.client.create_instance(subject.name, "no_such_task")
    assert caught.value.code == ErrorCode.UNKNOWN_TASK


async def test_an_unknown_environment_is_refused_and_the_known_ones_are_named(subject: Subject) -> None:
    with pytest.raises(NotFoundError, match=subject.name) as caught:
        await subject.client.create_instance("no_such_environment", subject.task)
    assert caught.value.code == ErrorCode.UNKNOWN_ENVIRONMENT


async def test_an_unknown_create_parameter_is_refused_by_name(subject: Subject) -> None:
    with pytest.raises(RequestError, match="no_such_parameter") as caught:
        await subject.client.create_instance(subject.name, subject.task, params={"no_such_parameter": 1})
    assert caught.value.code == ErrorCode.INVALID_REQUEST
    await subject.service.emptied()


async def test_one_seed_is_one_opening(subject: Subject) -> None:
    openings = [await subject.created(seed=SEED) for _ in range(2)]
    for opening in openings:
        await subject.client.release_instance(opening.pop("instance_id"))
    assert openings[0] == openings[1]


async def test_the_opening_ends_with_the_task_as_a_user_message(subject: Subject) -> None:
    async with subject.episode() as episode:
        messages = episode.observation.messages
    assert {message.role for message in messages} <= {"system", "user"}
    assert messages[-1].role == "user"
    assert all(message.content and message.content.strip() for message in messages)


async def test_the_opening_tells_category_step_limit_and_needed_texts(subject: Subject) -> None:
    async with subject.episode() as episode:
        info = episode.info
    assert isinstance(info["category"], str)
    assert info["category"]
    assert info["max_steps"] == subject.catalog.payload(subject.task).max_steps <= subject.described.max_steps
    assert info.get("texts") in (None, "last", "dialogue")
    texts = [not message.get("tool_calls") for message in subject.reference()]
    if not all(texts):
        # Beside calls, a text is none of the actions that a model may also write as text.
        assert is_dialogue(info) or not any(texts[:-1]), (
            "the reference has earlier messages without a call; set info['texts'] = 'dialogue' in the opening"
        )
        assert needs_texts(info) or not texts[-1], (
            "the reference ends with a message without a call; set info['texts'] = 'last' in the opening"
        )


async def test_tools_are_valid_openai_schemas(subject: Subject) -> None:
    tools = await subject.tools()
    names = [tool["function"]["name"] for tool in tools]
    assert len(set(names)) == len(names)
    for tool in tools:
        function = tool["function"]
        assert tool["type"] == "function"
        assert _TOOL_NAME.fullmatch(function["name"]), function["name"]
        assert function["description"].strip()
        parameters = function["parameters"]
        Draft202012Validator.check_schema(parameters)
        assert parameters["type"] == "object"
        assert set(parameters.get("required", ())) <= set(parameters["properties"])


async def test_every_task_offers_the_tools_of_the_descriptor(subject: Subject) -> None:
    offered = {tool["function"]["name"]: tool for tool in await subject.tools()}
    for tool in subject.described.tools:
        assert offered[tool.function.name] == tool.model_dump(mode="json")


async def test_every_reference_fits_the_step_limit(subject: Subject) -> None:
    for split in subject.described.splits:
        for task_id in subject.sample(split.name, 40):
            limit = subject.catalog.payload(task_id).max_steps
            assert len(subject.reference(task_id)) <= limit <= subject.described.max_steps, task_id
