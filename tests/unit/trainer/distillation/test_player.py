"""Episodes are scored by the teacher as they are played; one that is not has a failure."""

import asyncio
from dataclasses import replace

import pytest

from tests.fakes.clock import FakeClock
from tests.harness.episodes_played import FAILURE, played
from trainer.batches.payloads import group_from_payload, group_to_payload
from trainer.config import SamplingConfig
from trainer.distillation.player import player_with_teacher
from trainer.errors import ConfigError, TeacherFailed, TrainerError
from trainer.rollout.progress import ProgressMonitor
from trainer.rollout.samples import samples_of
from trainer.rollout.streak import FAILING_S, MOST_IN_A_ROW
from trainer.types import GroupSpec, Segment, TrajectoryGroup

SPEC = GroupSpec(0, played({}).task, 0, 2, 3)


class OneEpisode:
    def __init__(self, trajectory):
        self.trajectory = trajectory

    async def play_episode(self, spec, member, sampling):
        return self.trajectory


class Teacher:
    """Gives the token at place n the log-probability -n."""

    def __init__(self, error=None):
        self.error = error
        self.asked = []

    async def score(self, token_ids, deadline):
        self.asked.append(tuple(token_ids))
        if self.error is not None:
            raise self.error
        return tuple(-float(place) for place in range(len(token_ids)))


def player_of(teacher, trajectory, timeout_s=5.0, concurrency=16):
    return player_with_teacher(OneEpisode(trajectory), teacher, ProgressMonitor(), timeout_s, concurrency)


async def play(teacher, trajectory, spec=SPEC):
    return await player_of(teacher, trajectory).play_episode(spec, 0, SamplingConfig())


async def test_sampled_tokens_of_all_segments_get_their_log_probabilities() -> None:
    trajectory = played({}, {}, tokens=[2, 1])
    unsampled = Segment((1, 2), (False, False), (0.0, 0.0), ())
    trajectory = replace(trajectory, segments=(*trajectory.segments, unsampled, trajectory.segments[0]))
    teacher = Teacher()
    taught = await play(teacher, trajectory)
    assert [each.teacher_logprobs for each in taught.segments] == [(-1, -2, -3), (), (-1, -2, -3)]
    assert len(teacher.asked) == 2


async def test_log_probabilities_reach_samples_and_journal() -> None:
    taught = await play(Teacher(), played({}, tokens=[2]))
    (sample,) = samples_of(replace(taught, weight=1.0), [1.0], 0)
    assert sample.teacher_logprobs_T.tolist() == [0, -1, -2]
    group = TrajectoryGroup(SPEC, (taught,))
    assert group_from_payload(group_to_payload(group)) == group


async def test_an_episode_that_the_teacher_did_not_score_has_a_failure() -> None:
    taught = await play(Teacher(TeacherFailed("it is down")), played({}))
    assert (taught.failure.failure_class, taught.failure.phase) == ("teacher", "teacher")
    assert taught.failure.code == "teacher_failed"
    assert not taught.scored


async def test_all_segments_of_an_episode_have_one_deadline() -> None:
    deadlines = []

    class Noting(Teacher):
        async def score(self, token_ids, deadline):
            deadlines.append(deadline)
            return await super().score(token_ids, deadline)

    trajectory = played({}, tokens=[2])
    twice = replace(trajectory, segments=trajectory.segments * 2)
    await player_of(Noting(), twice, timeout_s=7.0).play_episode(SPEC, 0, SamplingConfig())
    first, second = deadlines
    assert first == second
    assert first.timeout_s == 7.0


async def test_the_wait_for_a_busy_teacher_is_no_part_of_the_deadline() -> None:
    class Busy(Teacher):
        now = most = 0

        async def score(self, token_ids, deadline):
            self.now += 1
            self.most = max(self.most, self.now)
            assert not deadline.passed
            await asyncio.sleep(0.02)
            self.now -= 1
            return await super().score(token_ids, deadline)

    teacher = Busy()
    player = player_of(teacher, played({}), timeout_s=0.5, concurrency=2)
    # All one after another take longer than the deadline of one.
    taught = await asyncio.gather(*(player.play_episode(SPEC, 0, SamplingConfig()) for _ in range(60)))
    assert [each.failure for each in taught] == [None] * 60
    assert teacher.most == 2


async def test_held_out_and_failed_episodes_are_not_scored() -> None:
    teacher = Teacher()
    await play(teacher, played({}), replace(SPEC, index=-1))
    await play(teacher, played({}, score=None, failure=FAILURE))
    assert teacher.asked == []


class Outage:
    """Episodes that a teacher is asked about while a clock goes on, and how many of them failed."""

    def __init__(self):
        self.clock = FakeClock()
        self.teacher = Teacher(TeacherFailed("it is down"))
        watch = ProgressMonitor(self.clock.monotonic)
        self.player = player_with_teacher(OneEpisode(played({})), self.teacher, watch, 5.0, 16)

    async def fail(self, episodes):
        for _ in range(episodes):
            assert (await self.player.play_episode(SPEC, 0, SamplingConfig())).failure is not None


async def test_a_run_outlives_a_short_absence_of_its_teacher_however_many_episodes_end_meanwhile() -> None:
    outage = Outage()
    await outage.fail(1)
    outage.clock.advance(FAILING_S - 1)
    await outage.fail(10 * MOST_IN_A_ROW)
    outage.teacher.error = None
    assert (await outage.player.play_episode(SPEC, 0, SamplingConfig())).failure is None
    outage.teacher.error = TeacherFailed("it is down again")
    outage.clock.advance(FAILING_S)
    await outage.fail(2 * MOST_IN_A_ROW)


async def test_the_run_ends_when_the_teacher_scores_nothing_for_long_or_cannot_be_used() -> None:
    outage = Outage()
    await outage.fail(1)
    outage.clock.advance(FAILING_S)
    await outage.fail(MOST_IN_A_ROW - 2)
    with pytest.raises(TrainerError, match="scored none of 32 episodes in a row, over 180 s: it is down"):
        await outage.fail(1)
    with pytest.raises(ConfigError):
        await play(Teacher(ConfigError("no such model")), played({}))
