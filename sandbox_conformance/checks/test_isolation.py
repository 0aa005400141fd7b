"""Instances do not share state, at once or one after another, whatever went on in the others."""

from __future__ import annotations

import asyncio
from itertools import cycle, islice, zip_longest

import pytest

from sandbox_conformance.actions import junk
from sandbox_conformance.subject import Json, Subject, transcript
from sandbox_contract.episodes import StepResult

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(600)]

_AT_ONCE = 16


async def poor_messages(subject: Subject) -> list[Json]:
    """Fewer messages than the reference has, none of which helps."""
    return list(islice(cycle(junk(await subject.tools())), max(1, len(subject.reference()) - 1)))


async def test_two_instances_of_one_task_at_once_are_both_solved(subject: Subject) -> None:
    async with subject.episode() as alone:
        expected = transcript(await subject.play(alone, subject.reference()))
    async with subject.episode() as one, subject.episode() as two:
        seen: dict[str, list[StepResult]] = {one.instance_id: [], two.instance_id: []}
        for message in subject.reference():
            for episode in (one, two):
                seen[episode.instance_id] += await subject.play(episode, [message])
        for episode in (one, two):
            assert transcript(seen[episode.instance_id]) == expected
            assert (await episode.evaluate()).score == 1.0


async def test_a_poor_rollout_beside_a_perfect_one_harms_neither(subject: Subject) -> None:
    async with subject.episode() as poor, subject.episode() as perfect:
        for bad, good in zip_longest(await poor_messages(subject), subject.reference()):
            await subject.play(poor, [bad] if bad else [])
            await subject.play(perfect, [good] if good else [])
        assert not (await poor.evaluate()).success
        assert (await perfect.evaluate()).score == 1.0
        assert not (await poor.evaluate()).success


async def test_a_perfect_rollout_after_a_poor_one_scores_one(subject: Subject) -> None:
    async with subject.episode() as poor:
        await subject.play(poor, await poor_messages(subject))
        assert not (await poor.evaluate()).success
    assert await subject.solve() == 1.0


async def test_a_perfect_rollout_after_a_disordered_one_scores_one(subject: Subject) -> None:
    """The disordered one does what the reference does, backwards, and so leaves what the reference leaves."""
    async with subject.episode() as disordered:
        await subject.play(disordered, reversed(subject.reference()))
        await disordered.evaluate()
        assert await subject.solve() == 1.0
    assert await subject.solve() == 1.0


async def test_sixteen_episodes_at_once_are_all_solved(subject: Subject) -> None:
    tasks = subject.sample(subject.described.default_split, _AT_ONCE)
    chosen = list(islice(cycle(tasks), _AT_ONCE))
    scores = await asyncio.gather(*(subject.solve(task_id) for task_id in chosen))
    assert scores == [1.0] * _AT_ONCE
