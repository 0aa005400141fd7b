"""Episodes played elsewhere: shared out evenly, watched, and played again when a worker is lost."""

import asyncio
from dataclasses import replace

import pytest

from tests.fakes.batches import FakePlayer, run_config, trajectory
from tests.harness.producer_steps import ids, started, sync_weights
from tests.harness.waiting import settle, until
from trainer.batches.workers import WorkerPlayer
from trainer.errors import ConfigError, EngineLost
from trainer.rollout.progress import EpisodePhase, ProgressMonitor
from trainer.types import GroupSpec, TaskRef

SPEC = GroupSpec(3, TaskRef("code", "train", "t"), seed=40, size=8, max_turns=4)


class FakeWorker:
    """Plays when the test lets it."""

    def __init__(self, name, *, error=None, silent=False):
        self.name = name
        self.error = error
        self.silent = silent
        self.go = asyncio.Event()
        self.played, self.prepared, self.reported = [], [], ()
        self.gone = False
        self.tough = self.puzzled = 0
        self.closed = self.kills = self.asked = 0

    async def play_episode(self, spec, member, sampling):
        self.played.append(member)
        await self.go.wait()
        if self.error is not None:
            raise self.error
        return trajectory(spec, member)

    def prepare_instance(self, spec, member):
        self.prepared.append(member)

    async def phases(self):
        if self.gone:
            raise EngineLost("it is not there")
        if self.silent:
            await asyncio.Event().wait()
        self.asked += 1
        if self.asked <= self.puzzled:
            raise ValueError("what is it?")
        return self.reported

    async def close(self):
        self.closed += 1

    def kill(self):
        self.kills += 1
        if self.kills <= self.tough:
            raise RuntimeError("it cannot be killed")


def play(player, *members):
    return [asyncio.create_task(player.play_episode(SPEC, member, None)) for member in members]


async def test_the_worker_with_the_fewest_episodes_plays_the_next():
    workers = [FakeWorker("a"), FakeWorker("b")]
    player = WorkerPlayer(workers, ProgressMonitor())
    playing = play(player, *range(6))
    await until(lambda: sum(len(worker.played) for worker in workers) == 6)
    assert [len(worker.played) for worker in workers] == [3, 3]
    for worker in workers:
        worker.go.set()
    assert [each.id for each in await asyncio.gather(*playing)] == [f"3.{member}" for member in range(6)]
    await player.close()
    assert [worker.closed for worker in workers] == [1, 1]


async def test_an_episode_is_played_where_its_instance_was_prepared():
    workers = [FakeWorker("a"), FakeWorker("b")]
    player = WorkerPlayer(workers, ProgressMonitor())
    for member in range(4):
        player.prepare_instance(SPEC, member)
    for worker in workers:
        worker.go.set()
    for member in (1, 3, 0, 2):
        await player.play_episode(SPEC, member, None)
    assert [sorted(worker.played) for worker in workers] == [worker.prepared for worker in workers]
    await player.close()


async def test_a_worker_that_dies_is_an_infrastructures_failure_of_its_episodes():
    worker = FakeWorker("a", error=EngineLost("a died"))
    worker.go.set()
    player = WorkerPlayer([worker], ProgressMonitor())
    played = await player.play_episode(SPEC, 2, None)
    assert (played.id, played.seed, played.score) == ("3.2", 42, None)
    assert (played.failure.failure_class, played.failure.detail) == ("engine", "a died")
    await player.close()


async def test_a_lost_worker_plays_nothing_until_it_answers_again():
    lost, other = FakeWorker("a", error=EngineLost("a died")), FakeWorker("b")
    lost.gone = True
    for worker in (lost, other):
        worker.go.set()
    player = WorkerPlayer([lost, other], ProgressMonitor(), look_s=0.001)
    played = [await player.play_episode(SPEC, member, None) for member in range(6)]
    assert [each.failure is None for each in played].count(False) == len(lost.played) <= 1
    player.prepare_instance(SPEC, 6)
    assert lost.prepared == []
    other.go.clear()
    waiting = play(player, 6)
    await until(lambda: 6 in other.played)
    lost.error, lost.gone = None, False
    await until(lambda: not player.lost)
    await player.play_episode(SPEC, 7, None)
    assert lost.played[-1] == 7
    other.go.set()
    await asyncio.gather(*waiting)
    await player.close()


async def test_an_episode_waits_for_a_worker_when_all_are_lost():
    worker = FakeWorker("a", error=EngineLost("a died"))
    worker.gone = True
    worker.go.set()
    player = WorkerPlayer([worker], ProgressMonitor(), look_s=0.001)
    assert (await player.play_episode(SPEC, 0, None)).failure is not None
    (playing,) = play(player, 1)
    await settle()
    assert not playing.done()
    worker.error, worker.gone = None, False
    assert (await playing).failure is None
    await player.close()


async def test_an_episode_goes_on_waiting_when_the_worker_that_came_back_is_lost_at_once():
    class Fleeting(FakeWorker):
        async def phases(self):
            found = await super().phases()
            self.go.set()  # an episode that it lost before ends now, before the waiting one begins
            return found

        async def play_episode(self, spec, member, sampling):
            try:
                return await super().play_episode(spec, member, sampling)
            finally:
                self.error = None  # only one is lost

    worker = Fleeting("a", error=EngineLost("a died"))
    player = WorkerPlayer([worker], ProgressMonitor(), look_s=0.001)
    worker.gone = True
    (lost,) = play(player, 0)
    await until(lambda: player.lost and worker.played)
    (waiting,) = play(player, 1)
    await settle()
    worker.gone = False
    await until(lost.done)
    assert lost.result().failure is not None
    assert (await waiting).failure is None
    await player.close()


async def test_a_wait_for_workers_that_never_come_back_has_an_end():
    worker = FakeWorker("a", error=EngineLost("a died"))
    worker.gone = True
    worker.go.set()
    player = WorkerPlayer([worker], ProgressMonitor(), look_s=0.001, back_s=0.01)
    await player.play_episode(SPEC, 0, None)
    played = await player.play_episode(SPEC, 1, None)
    assert played.failure.failure_class == "engine"
    assert played.failure.detail == "no episode worker has come back in 0.01 s: a"
    await player.close()


async def test_what_ends_a_run_comes_through():
    worker = FakeWorker("a", error=ConfigError("the template does not fit"))
    worker.go.set()
    player = WorkerPlayer([worker], ProgressMonitor())
    with pytest.raises(ConfigError, match="does not fit"):
        await player.play_episode(SPEC, 0, None)
    await player.close()


async def test_the_watch_follows_what_workers_tell_of_episodes_under_way():
    watch, worker = ProgressMonitor(), FakeWorker("a")
    watch.entered("3.0", "create")
    player = WorkerPlayer([worker], watch, look_s=0.001)
    (playing,) = play(player, 0)
    known = EpisodePhase("3.0", "evaluate", "code-7", since=0.0, may_take_s=600.0, count=7)
    worker.reported = (known, EpisodePhase("9.9", "step", "code-8", since=0.0))
    await until(lambda: [replace(each, since=0.0) for each in watch.phases()] == [known])
    worker.go.set()
    await playing
    await player.close()


async def test_a_worker_that_does_not_answer_is_ended():
    worker = FakeWorker("a")
    player = WorkerPlayer([worker], ProgressMonitor(), look_s=0.001, hung_s=0.01)
    play(player, 0)
    await until(lambda: worker.asked)
    worker.silent = True
    await until(lambda: worker.kills)
    worker.go.set()
    await player.close()


async def test_a_worker_that_cannot_be_ended_is_looked_at_again():
    worker = FakeWorker("a", silent=True)
    worker.tough = 1
    player = WorkerPlayer([worker], ProgressMonitor(), look_s=0.001, hung_s=0.01, back_s=0.01)
    play(player, 0)
    await until(lambda: worker.kills > 1)
    worker.silent = False
    await until(lambda: not player.lost)
    worker.go.set()
    await player.close()


async def test_a_lost_worker_comes_back_after_an_unexpected_error():
    worker = FakeWorker("a", error=EngineLost("a died"))
    worker.puzzled = 2
    worker.go.set()
    player = WorkerPlayer([worker], ProgressMonitor(), look_s=0.001)
    await player.play_episode(SPEC, 0, None)
    await until(lambda: worker.asked > 2 and not player.lost)
    await player.close()


async def test_a_worker_may_take_longer_to_begin_than_to_answer():
    worker = FakeWorker("a", silent=True)
    player = WorkerPlayer([worker], ProgressMonitor(), look_s=0.001, hung_s=0.001, back_s=0.2)
    play(player, 0)
    await asyncio.sleep(0.05)
    assert worker.kills == 0
    await until(lambda: worker.kills)
    worker.go.set()
    await player.close()


async def test_batches_are_the_same_whoever_plays(tmp_path):
    class Lost(FakePlayer):
        """Every third episode's worker dies at the first attempt."""

        async def play_episode(self, spec, member, sampling):
            played = await super().play_episode(spec, member, sampling)
            if self.attempts[played.id] == 1 and (spec.index + member) % 3 == 0:
                raise EngineLost("it died")
            return played

        name = "lost"
        prepare_instance = staticmethod(lambda *_: None)

        async def phases(self):
            return ()

        async def close(self):
            return None

    alone, lost = FakePlayer(), Lost()
    (tmp_path / "alone").mkdir()
    (tmp_path / "lost").mkdir()
    first = await started(run_config(), tmp_path / "alone", alone)
    second = await started(run_config(), tmp_path / "lost", WorkerPlayer([lost], ProgressMonitor()))
    await sync_weights(first, alone, 0)
    await sync_weights(second, lost, 0)
    one, other = await first.get_batch(0), await second.get_batch(0)
    assert ids(one) == ids(other)
    assert other.metrics["failures/engine"] > 0
    await first.close()
    await second.close()
