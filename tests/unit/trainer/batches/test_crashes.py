"""Killed anywhere, by chance: no trajectory is lost or consumed twice, and steps come again as they were."""

import asyncio
import hashlib
import json
import math
import random
from dataclasses import dataclass, field

import pytest

from tests.fakes.batches import FakePlayer, batch_producer, failure, run_config, trajectory
from trainer.batches.events import Assembled, Ended, GroupFate, Issued
from trainer.batches.journal import BatchJournal, journal_file

STEPS = 8
EVERY = 3


class Killed(BaseException):
    """The process is gone."""


class Executioner:
    """Kills once after so many writes, before or after the write that it was."""

    def __init__(self, chance):
        self._chance = chance
        self.dead = False
        self.arm()

    def arm(self):
        self._left = self._chance.randrange(1, 60)
        self._after = self._chance.random() < 0.5
        self.dead = False

    def around(self, write):
        """Do a write, or die."""
        if self.dead:
            raise Killed
        self._left -= 1
        if self._left > 0:
            return write()
        self.dead = True
        if self._after:
            write()
        raise Killed


class MortalJournal(BatchJournal):
    """Every write may be the last; between a file and its mark, too."""

    executioner: Executioner

    def append(self, event, payload=None):
        return self.executioner.around(lambda: super(MortalJournal, self).append(event, payload))

    def mark_exported(self, step, sizes):
        return self.executioner.around(lambda: super(MortalJournal, self).mark_exported(step, sizes))

    def set_version(self, version):
        return self.executioner.around(lambda: super(MortalJournal, self).set_version(version))

    def keep_only(self, groups):
        return self.executioner.around(lambda: super(MortalJournal, self).keep_only(groups))


@dataclass
class Learner:
    """Remembers what it was given; its checkpoints survive it."""

    done: int = 0
    checkpoint: int = 0
    given: dict = field(default_factory=dict)
    """Fingerprints of every batch that was handed out, by step."""

    def learn(self, batch):
        seen = [
            (s.id, s.token_ids_T.tolist(), s.rewards_T.tolist(), s.versions_T.tolist()) for s in batch.samples
        ]
        self.given.setdefault(batch.step, []).append(json.dumps([seen, batch.metrics]))
        self.done = batch.step + 1


def behaviour(seed):
    """Chance that is the same for the same attempt: failures, flat groups, broken tasks."""

    def behave(spec, member, attempt):
        digest = hashlib.sha256(f"{seed} {spec.index} {member} {attempt}".encode()).digest()
        if spec.task.task_id == "t4":
            return failure("task", "grader_failed")
        if digest[0] < 40:
            return failure("sandbox" if digest[1] < 128 else "engine")
        return trajectory(spec, member, points=float(digest[2] < 100), turns=1 + digest[3] % 3)

    return behave


async def life(config, folder, player, learner, executioner, chance):
    """One process's life: from start to the last step, to a kill, or to the learner's own death."""
    open_journal = type("OneJournal", (MortalJournal,), {"executioner": executioner})
    made = batch_producer(config, folder, player, journal=open_journal)
    opened = []
    try:
        await made.start()
        opened.append(made)
        await made.rewind(learner.done)
        await made.weights_synced(learner.done)
        while learner.done < STEPS:
            player.version = learner.done
            learner.learn(await made.get_batch(learner.done))
            player.version = learner.done
            await made.weights_synced(learner.done)
            if learner.done % EVERY == 0:
                learner.checkpoint = learner.done
                await made.checkpoint_saved(learner.done)
            if chance.random() < 0.15:  # only the learner dies, and goes on from its checkpoint
                learner.done = learner.checkpoint
                await made.rewind(learner.done)
                player.version = learner.done
                await made.weights_synced(learner.done)
    finally:
        executioner.dead = True
        await end(made)


async def end(made):
    """End all tasks of a killed process, so that nothing of it writes any more."""
    others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
    await made.close()


@pytest.mark.parametrize("staleness", [0, 2])
@pytest.mark.parametrize("seed", range(8))
async def test_nothing_is_lost_or_repeated(tmp_path, seed, staleness):
    await survive(tmp_path, seed, staleness, {})


@pytest.mark.parametrize("oversample", [1.0, 1.7])
@pytest.mark.parametrize("staleness", [0, 1, 2])
@pytest.mark.parametrize("seed", range(4))
async def test_nothing_is_lost_or_repeated_in_phases(tmp_path, seed, staleness, oversample):
    await survive(tmp_path, seed, staleness, {"sources": SOURCES, "phases": PHASES}, oversample)


SOURCES = [{"name": name, "environment": "code"} for name in "ab"]
PHASES = [{"steps": steps, "sources": [name]} for steps, name in ((3, "a"), (2, "b"), (3, "a"))]


async def survive(tmp_path, seed, staleness, tasks, oversample=1.0):
    chance = random.Random(seed)
    rollout = {"max_staleness": staleness, "oversample": oversample, "groups": 3}
    replay = {"share": 0.34} if seed % 3 == 0 else {}
    config = run_config(
        steps=STEPS,
        seed=seed,
        rollout={**rollout, "strategy": {"kind": "retry", "attempts": 2}},
        tasks={"replay": replay, "curriculum": CURRICULA[seed % 2], **tasks},
        algorithm={"most_dropped": 1.0},
    )
    player = FakePlayer(behaviour(seed), chance=chance)
    learner = Learner()
    executioner = Executioner(chance)
    deaths = 0
    while learner.done < STEPS:
        try:
            await life(config, tmp_path, player, learner, executioner, chance)
        except Killed:
            deaths += 1
            if chance.random() < 0.5:  # the learner died as well
                learner.done = learner.checkpoint
            executioner.arm()
            assert deaths < 200
    assert deaths > 0
    audit(config, tmp_path, learner, staleness)


CURRICULA = ({"kind": "shuffle"}, {"kind": "adaptive"})


def audit(config, folder, learner, staleness):
    """The journal, the file and what the learner was given agree."""
    for step, given in learner.given.items():
        assert len(set(given)) == 1, f"step {step} was not the same each time"
    lines = [json.loads(line) for line in (folder / "consumed.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines] == list(range(len(lines)))
    fresh = [each for line in lines for each in line["trajectories"]]
    assert len(set(fresh)) == len(fresh)
    journal = BatchJournal(journal_file(folder))
    _, *events = journal.events()
    journal.close()
    specs = [event.spec for event in events if isinstance(event, Issued)]
    issued = [spec.index for spec in specs]
    fates = {event.index: event for event in events if isinstance(event, Ended)}
    batches = [event for event in events if isinstance(event, Assembled)]
    assert issued == list(range(len(issued)))
    assert len(fates) == sum(isinstance(event, Ended) for event in events), "a group ended twice"
    used = [index for batch in batches for index in batch.fresh]
    assert len(set(used)) == len(used), "a group was used twice"
    ready = {index for index, event in fates.items() if event.fate is GroupFate.READY}
    assert set(used) <= ready
    for batch in batches:
        assert len(batch.fresh) == 3 - int(config.tasks.replay.share * 3)
        assert all(batch.step - fates[index].version <= staleness for index in batch.fresh)
        assert learner.given[batch.step]
        sources = {specs[index].task.source for index in batch.fresh}
        assert sources == ({"b" if batch.step in (3, 4) else "a"} if config.tasks.phases else {""})
    # What neither ended nor is under way would be lost.
    spare = math.ceil((config.rollout.oversample - 1) * 3)
    assert len(issued) - len(fates) <= (staleness + 1) * 3 + spare
    texts = (folder / "trajectories.jsonl").read_text().splitlines()
    shown = [each["id"] for text in texts for each in json.loads(text)["trajectories"]]
    assert sorted(set(shown)) == sorted(shown)
    assert set(fresh) <= set(shown)
