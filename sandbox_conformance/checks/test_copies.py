"""Forks, replays and rebuilt instances: where an episode can be had twice, both are that episode."""

from __future__ import annotations

import pytest

from sandbox_client.errors import ConflictError, InstanceLost
from sandbox_conformance.actions import idle
from sandbox_conformance.subject import Subject, transcript
from sandbox_contract.problems import ErrorCode

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(600)]


def need_fork(subject: Subject) -> None:
    if not subject.described.capabilities.fork:
        pytest.skip(f"{subject.name} cannot be forked")


async def test_a_copy_of_a_half_played_reference_finishes_it_while_the_source_stays(subject: Subject) -> None:
    need_fork(subject)
    before, after = subject.halves()
    async with subject.episode() as whole:
        expected = transcript(await subject.play(whole, subject.reference()))
    async with subject.episode() as source:
        await subject.play(source, before)
        standing = await source.evaluate()
        (copy,) = await source.fork()
        async with copy:
            assert transcript(await subject.play(copy, after)) == expected[len(before) :]
            assert (await copy.evaluate()).score == 1.0
            still = await source.evaluate()
            assert (still.score, still.success) == (standing.score, standing.success)
            assert (await subject.client.instance(source.instance_id)).step_index == len(before)
        assert transcript(await subject.play(source, after)) == expected[len(before) :]
        assert (await source.evaluate()).score == 1.0


async def test_copies_go_ways_of_their_own(subject: Subject) -> None:
    need_fork(subject)
    before, after = subject.halves()
    action = idle(await subject.tools())
    async with subject.episode() as source:
        await subject.play(source, before)
        standing = await source.evaluate()
        solved, idling = await source.fork(count=2)
        async with solved, idling:
            assert len({source.instance_id, solved.instance_id, idling.instance_id}) == 3
            await subject.play(solved, after)
            stray = await idling.step(action)
            assert stray.step_index == len(before)
            assert (await solved.evaluate()).score == 1.0
            assert (await idling.evaluate()).score < 1.0 or standing.score == 1.0
            await source.release()
            assert (await solved.evaluate()).score == 1.0
            assert (await subject.client.instance(idling.instance_id)).step_index == len(before) + 1


async def test_a_copy_of_a_finished_episode_is_finished(subject: Subject) -> None:
    need_fork(subject)
    async with subject.episode() as source:
        await subject.play(source, subject.reference())
        (copy,) = await source.fork()
        async with copy:
            assert copy.finished == source.finished
            assert (await copy.evaluate()).score == 1.0
            if source.finished:
                with pytest.raises(ConflictError) as caught:
                    await subject.client.step(copy.instance_id, "more")
                assert caught.value.code == ErrorCode.INSTANCE_FINISHED


async def test_a_fork_is_refused_where_there_is_none(subject: Subject) -> None:
    if subject.described.capabilities.fork:
        pytest.skip(f"{subject.name} can be forked")
    async with subject.episode() as episode:
        with pytest.raises(ConflictError) as caught:
            await episode.fork()
        assert caught.value.code == ErrorCode.FORK_UNSUPPORTED
        await subject.play(episode, subject.reference())
        assert (await episode.evaluate()).score == 1.0


async def test_the_same_actions_lead_to_the_same_bytes(subject: Subject) -> None:
    if not subject.described.capabilities.deterministic:
        pytest.skip(f"{subject.name} is not deterministic")
    runs = []
    for _ in range(2):
        instance_id = (await subject.created())["instance_id"]
        answers = []
        for message in subject.reference():
            answer = await subject.post("/v1/step", {"instance_id": instance_id, "message": message})
            answers.append(answer.content.replace(instance_id.encode(), b"the instance"))
        await subject.client.release_instance(instance_id)
        runs.append(answers)
    assert runs[0] == runs[1]


async def test_an_episode_whose_sandbox_dies_is_rebuilt_or_lost_but_never_scored(subject: Subject) -> None:
    before, after = subject.halves()
    async with subject.episode() as undisturbed:
        expected = transcript(await subject.play(undisturbed, subject.reference()))
    async with subject.episode() as episode:
        await subject.play(episode, before)
        await subject.service.kill_box_of(episode.instance_id)
        if subject.described.capabilities.deterministic:
            assert transcript(await subject.play(episode, after)) == expected[len(before) :]
            assert (await episode.evaluate()).score == 1.0
        else:
            for late in (lambda: episode.step(after[0]), episode.evaluate):
                with pytest.raises(InstanceLost) as caught:
                    await late()
                assert caught.value.code == ErrorCode.INSTANCE_LOST
    assert await subject.solve() == 1.0
