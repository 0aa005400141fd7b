"""Scores: the reference's is 1, doing nothing's is none, and looking at them changes nothing."""

from __future__ import annotations

import pytest

from sandbox_client.errors import RequestError
from sandbox_conformance.subject import Subject, transcript
from sandbox_contract.problems import ErrorCode

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(600)]

_OF_EACH_SPLIT = {"process": 4, "docker": 2, "gvisor": 2}


async def test_the_reference_scores_one_and_succeeds(subject: Subject) -> None:
    async with subject.episode() as episode:
        await subject.play(episode, subject.reference())
        verdict = await episode.evaluate()
        assert (verdict.score, verdict.success) == (1.0, True)
        assert verdict.instance_id == episode.instance_id


async def test_references_all_over_every_split_score_one(subject: Subject) -> None:
    scores: dict[str, float] = {}
    for split in subject.described.splits:
        for task_id in subject.sample(split.name, _OF_EACH_SPLIT[subject.kind]):
            if task_id not in scores:
                scores[task_id] = await subject.solve(task_id)
    assert scores
    assert {task_id: score for task_id, score in scores.items() if score != 1.0} == {}


async def test_doing_nothing_does_not_succeed(subject: Subject) -> None:
    for split in subject.described.splits:
        for task_id in subject.sample(split.name, 1):
            async with subject.episode(task_id) as episode:
                verdict = await episode.evaluate()
                assert not verdict.success, task_id
                assert verdict.score < 1.0, task_id


async def test_every_score_lies_in_the_range_of_the_descriptor(subject: Subject) -> None:
    low, high = subject.described.reward_range
    async with subject.episode() as episode:
        assert low <= (await episode.evaluate()).score <= high
        for message in subject.reference():
            await episode.step(message)
            assert low <= (await episode.evaluate()).score <= high


async def test_evaluating_between_steps_disturbs_nothing(subject: Subject) -> None:
    async with subject.episode() as undisturbed, subject.episode() as watched:
        expected = await subject.play(undisturbed, subject.reference())
        seen = []
        await watched.evaluate()
        for message in subject.reference():
            seen.append(await watched.step(message))
            await watched.evaluate()
            await watched.evaluate(params={"sparse": True})
        assert transcript(seen) == transcript(expected)
        assert (await watched.evaluate()).score == 1.0


async def test_evaluating_twice_gives_the_same(subject: Subject) -> None:
    async with subject.episode() as episode:
        for messages in ([], *subject.halves()):
            await subject.play(episode, messages)
            first, second = await episode.evaluate(), await episode.evaluate()
            assert (first.score, first.success, first.details) == (
                second.score,
                second.success,
                second.details,
            )


async def test_a_sparse_score_is_one_or_nothing_and_agrees_with_success(subject: Subject) -> None:
    async with subject.episode() as episode:
        for messages in ([], *subject.halves()):
            await subject.play(episode, messages)
            graded = await episode.evaluate(params={"sparse": False})
            sparse = await episode.evaluate(params={"sparse": True})
            assert sparse.score == float(graded.success) == float(sparse.success)
            assert graded.score == (await episode.evaluate()).score


async def test_bad_parameters_of_an_evaluation_are_refused(subject: Subject) -> None:
    async with subject.episode() as episode:
        for params in ({"no_such_parameter": True}, {"sparse": "yes"}, {"sparse": None}, {"sparse": 1}):
            with pytest.raises(RequestError) as caught:
                await episode.evaluate(params=params)
            assert caught.value.code == ErrorCode.INVALID_REQUEST, params
        await subject.play(episode, subject.reference())
        assert (await episode.evaluate()).score == 1.0
