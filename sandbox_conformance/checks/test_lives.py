"""The life of an instance: created once, repeated without being run again, released for good."""

from __future__ import annotations

import pytest

from sandbox_client.errors import ConflictError, GoneError, NotFoundError
from sandbox_conformance.subject import SEED, Json, Subject
from sandbox_contract.problems import ErrorCode

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(600)]


async def test_releasing_twice_is_no_error_and_nothing_works_afterwards(subject: Subject) -> None:
    client = subject.client
    created = await client.create_instance(subject.name, subject.task)
    instance_id = created.instance_id
    assert (await client.release_instance(instance_id)).released
    assert not (await client.release_instance(instance_id)).released
    for late in (
        lambda: client.step(instance_id, "too late"),
        lambda: client.evaluate(instance_id),
        lambda: client.fork_instance(instance_id),
    ):
        with pytest.raises(GoneError) as caught:
            await late()
        assert caught.value.code == ErrorCode.INSTANCE_RELEASED


async def test_an_instance_that_never_was_is_unknown(subject: Subject) -> None:
    for call in (
        lambda: subject.client.step("never-was", "hello"),
        lambda: subject.client.evaluate("never-was"),
        lambda: subject.client.trajectory("never-was"),
    ):
        with pytest.raises(NotFoundError) as caught:
            await call()
        assert caught.value.code == ErrorCode.UNKNOWN_INSTANCE


async def test_a_release_in_mid_episode_gives_everything_back(subject: Subject) -> None:
    await subject.service.emptied()
    half, _ = subject.halves()
    async with subject.episode() as one, subject.episode() as two:
        for episode in (one, two):
            await subject.play(episode, half)
        assert (await subject.client.stats()).instances == 2
    await subject.service.emptied()


async def test_an_id_of_the_callers_choice_is_taken_once(subject: Subject) -> None:
    chosen = "an.id:of-my_own"
    created = await subject.created(instance_id=chosen)
    assert created["instance_id"] == chosen
    for _ in range(2):
        with pytest.raises(ConflictError) as caught:
            await subject.client.create_instance(subject.name, subject.task, instance_id=chosen)
        assert caught.value.code == ErrorCode.DUPLICATE_INSTANCE
        await subject.client.release_instance(chosen)


async def test_one_key_is_one_execution_and_the_same_bytes(subject: Subject) -> None:
    create = {"environment": subject.name, "task_id": subject.task, "seed": SEED}
    first = await subject.post("/v1/create_instance", create, key="create-once")
    assert (await subject.post("/v1/create_instance", create, key="create-once")).content == first.content
    instance_id = first.json()["instance_id"]
    for number, message in enumerate(subject.reference()):
        body = {"instance_id": instance_id, "message": message}
        answers = [await subject.post("/v1/step", body, key=f"step-{number}") for _ in range(2)]
        assert answers[0].content == answers[1].content
        assert answers[0].json()["step_index"] == number
    body = {"instance_id": instance_id}
    answers = [await subject.post("/v1/evaluate", body, key="grade") for _ in range(2)]
    assert answers[0].content == answers[1].content
    assert answers[0].json()["score"] == 1.0
    other = await subject.post("/v1/evaluate", {**body, "params": {"sparse": True}}, key="grade")
    assert (other.status_code, other.json()["code"]) == (409, "idempotency_conflict")
    await subject.client.release_instance(instance_id)


async def test_a_batch_is_its_operations(subject: Subject) -> None:
    single = await subject.created()
    batched = await batch(subject, "create_instance", *[creation(subject)] * 2)
    assert [without_id(each) for each in batched] == [without_id(single)] * 2
    alone, *together = (each["instance_id"] for each in (single, *batched))
    for message in subject.reference():
        answer = await subject.post("/v1/step", {"instance_id": alone, "message": message})
        steps = [{"instance_id": each, "message": message} for each in together]
        for result in await batch(subject, "step", *steps):
            assert without_id(result) == without_id(answer.json())
    grades = await batch(subject, "evaluate", *[{"instance_id": each} for each in (alone, *together)])
    assert [grade["score"] for grade in grades] == [1.0, 1.0, 1.0]
    ends = await batch(subject, "release_instance", *[{"instance_id": each} for each in (alone, *together)])
    assert all(end["released"] for end in ends)


def creation(subject: Subject) -> Json:
    return {"environment": subject.name, "task_id": subject.task, "seed": SEED}


async def batch(subject: Subject, operation: str, *requests: Json) -> list[Json]:
    """The results of one operation on several instances; all must succeed."""
    operations = [{"operation": operation, "request": request} for request in requests]
    results = (await subject.post("/v1/batch", {"operations": operations})).json()["results"]
    assert [each["status"] for each in results] == [200] * len(requests), results
    return [each["body"] for each in results]


def without_id(result: Json) -> Json:
    return {name: value for name, value in result.items() if name not in ("instance_id", "info")}


async def test_the_history_of_an_episode_is_on_record(subject: Subject) -> None:
    async with subject.episode() as episode:
        results = await subject.play(episode, subject.reference())
        verdict = await episode.evaluate()
    history = await subject.client.trajectory(episode.instance_id)
    assert (history.environment, history.task_id, history.seed) == (subject.name, subject.task, SEED)
    assert [event.operation for event in history.events] == [
        "create",
        *["step"] * len(results),
        "evaluate",
        "release",
    ]
    assert [event.reward for event in history.events if event.operation == "step"] == [
        result.reward for result in results
    ]
    assert history.events[-2].reward == verdict.score


async def test_files_are_served_where_there_are_any_and_refused_elsewhere(subject: Subject) -> None:
    client = subject.client
    async with subject.episode() as episode:
        if not subject.described.capabilities.files:
            with pytest.raises(ConflictError) as caught:
                await client.list_files(episode.instance_id)
            assert caught.value.code == ErrorCode.FILES_UNSUPPORTED
            return
        await client.write_file(episode.instance_id, "notes/a.txt", b"\x00\xff\n")
        assert await client.read_file(episode.instance_id, "notes/a.txt") == b"\x00\xff\n"
        listed = {entry.path: entry.size for entry in (await client.list_files(episode.instance_id)).files}
        assert listed["notes/a.txt"] == 3


async def test_the_public_protocol_plays_the_reference_too(subject: Subject) -> None:
    common = {"env_type": subject.name, "task_id": subject.task, "instance_id": "mine", "params": {}}
    created = (await subject.post("/create", {**common, "messages": {}})).json()["data"]
    assert [message["role"] for message in created["state"]] == ["system", "user"]
    assert all(message["content"] for message in created["state"])
    assert created["info"]["instance_id"] == "mine"
    later = {**common, "env_type": "default", "task_id": None}
    for message in subject.reference():
        stepped = (await subject.post("/step", {**later, "messages": message})).json()["data"]
        assert [answer["role"] for answer in stepped["state"]] == ["user"]
    sparse = {**later, "messages": {}, "params": {"sparse": True}}
    assert (await subject.post("/evaluate", sparse)).json() == {"success": True, "data": 1.0}
    graded = (await subject.post("/evaluate", {**sparse, "params": {}})).json()["data"]
    assert (graded["score"], graded["success"]) == (1.0, True)
    assert (await subject.post("/release", later)).json()["success"]
