"""The order of tasks: the same events lead to the same tasks."""

import random
from collections import Counter

import pytest

from trainer.config import CurriculumConfig, HorizonConfig
from trainer.errors import DataError
from trainer.tasks.curriculum import horizon, make_sampler
from trainer.tasks.returned import ReturnedTasks
from trainer.types import GroupSpec, TaskRef

EASY = [TaskRef("code", "train", f"e{number}", "easy") for number in range(6)]
MEDIUM = [TaskRef("code", "train", f"m{number}", "medium") for number in range(6)]
HARD = [TaskRef("code", "train", f"h{number}", "hard") for number in range(6)]
ALL = [*EASY, *MEDIUM, *HARD]
KINDS = ("shuffle", "levels", "adaptive")


def sampler_of(kind, tasks=ALL, seed=0, **settings):
    return make_sampler(tasks, CurriculumConfig(kind=kind, **settings), seed)


def issue(sampler, index):
    """Draw a task and say that it is played."""
    task = sampler.draw(index)
    sampler.issued(GroupSpec(index, task, seed=0, size=2, max_turns=4))
    return task


def play(sampler, groups, success, first=0):
    """Issue groups and end each; how often each task came."""
    came = Counter()
    for index in range(first, first + groups):
        task = issue(sampler, index)
        came[task] += 1
        sampler.group_ended(task, success(task))
    return came


def test_shuffle_plays_every_task_once_an_epoch_in_another_order():
    sampler = sampler_of("shuffle")
    first = [issue(sampler, index) for index in range(18)]
    second = [issue(sampler, index) for index in range(18, 36)]
    assert set(first) == set(second) == set(ALL)
    assert first != second


def test_another_seed_is_another_order():
    assert [issue(sampler_of("shuffle", seed=1), 0)] != [issue(sampler_of("shuffle", seed=2), 0)]


@pytest.mark.parametrize("kind", KINDS)
def test_drawing_changes_nothing(kind):
    sampler = sampler_of(kind)
    assert len({sampler.draw(0) for _ in range(5)}) == 1


@pytest.mark.parametrize("kind", ["shuffle", "levels"])
def test_a_task_that_was_put_back_comes_next(kind):
    sampler = sampler_of(kind)
    task = issue(sampler, 0)
    following = sampler.draw(1)
    sampler.put_back(task)
    assert issue(sampler, 1) == task
    assert issue(sampler, 2) == following


@pytest.mark.parametrize("kind", ["shuffle", "levels"])
def test_a_task_that_is_lost_again_and_again_comes_behind_more_and_more_others(kind):
    sampler = sampler_of(kind)
    task, came = issue(sampler, 0), []
    sampler.put_back(task)
    for index in range(1, 100):
        found = issue(sampler, index)
        if found == task:
            came.append(index)
            sampler.put_back(task)
        else:
            sampler.group_ended(found, (False,))
    behind = [later - earlier - 1 for earlier, later in zip([0, *came], came, strict=False)]
    assert behind[:5] == [0, 1, 2, 4, 8]
    assert max(behind) <= len(ALL)


def test_a_task_that_was_played_in_between_comes_next_again():
    sampler = sampler_of("shuffle")
    task = issue(sampler, 0)
    for index in (1, 2):
        sampler.put_back(task)
        assert issue(sampler, index) == task
        sampler.group_ended(task, (True,))


def test_of_two_lost_groups_of_a_task_the_one_that_is_due_is_played():
    (task, *_), returned = ALL, ReturnedTasks(100)
    for _ in range(5):
        returned.put_back(task)
    assert [returned.issue() for _ in range(5)] == [True, True, True, False, True]
    returned.note_played(task)
    returned.put_back(task)
    assert [returned.issue() for _ in range(4)] == [True, False, False, True]


def test_the_only_task_comes_again_however_often_it_is_lost():
    sampler = sampler_of("shuffle", ALL[:1])
    for index in range(10):
        assert issue(sampler, index) == ALL[0]
        sampler.put_back(ALL[0])


@pytest.mark.parametrize("kind", KINDS)
def test_a_banned_task_never_comes_again(kind):
    sampler = sampler_of(kind)
    task = issue(sampler, 0)
    sampler.ban(task)
    assert task not in play(sampler, 60, lambda _: (True, False), first=1)
    assert sampler.sampling_metrics()["tasks/banned"] == 1.0


@pytest.mark.parametrize("kind", KINDS)
def test_when_all_are_banned_it_says_so(kind):
    sampler = sampler_of(kind, tasks=EASY)
    for index in range(6):
        sampler.ban(issue(sampler, index))
    with pytest.raises(DataError, match="no task is left"):
        sampler.draw(6)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(3))
def test_two_samplers_that_were_told_the_same_draw_the_same(kind, seed):
    chance = random.Random(seed)
    told, drawn = [], []
    sampler = sampler_of(kind, window=4)
    for index in range(200):
        drawn.append(issue(sampler, index))
        event = chance.choice(
            [
                "group_ended",
                "group_ended",
                "group_ended",
                "put_back",
                "ban" if index % 40 == 0 else "group_ended",
            ]
        )
        successes = tuple(chance.random() < 0.7 for _ in range(4))
        arguments = (drawn[-1], successes) if event == "group_ended" else (drawn[-1],)
        getattr(sampler, event)(*arguments)
        told.append((event, arguments))
    again = sampler_of(kind, window=4)
    for index, (event, arguments) in enumerate(told):
        assert issue(again, index) == drawn[index]
        getattr(again, event)(*arguments)
    assert again.sampling_metrics() == sampler.sampling_metrics()


def test_levels_begin_with_easy_tasks_alone():
    came = play(sampler_of("levels"), 60, lambda _: (False, False))
    assert set(came) == set(EASY)


def test_a_level_opens_when_the_one_before_succeeds_and_earlier_ones_stay_among_it():
    sampler = sampler_of("levels", window=8, threshold=0.75, earlier=0.25)
    play(sampler, 4, lambda _: (True, True))
    assert sampler.sampling_metrics()["curriculum/level"] == 1.0
    came = play(sampler, 200, lambda _: (True, False), first=4)
    shares = Counter(task.difficulty for task in came.elements())
    assert shares["hard"] == 0
    assert 0.15 < shares["easy"] / 200 < 0.35


def test_a_level_that_is_not_full_of_episodes_does_not_open_the_next():
    sampler = sampler_of("levels", window=8, threshold=0.75)
    play(sampler, 3, lambda _: (True, True))
    assert sampler.sampling_metrics()["curriculum/level"] == 0.0


def test_tasks_of_an_unknown_difficulty_come_last():
    strange = TaskRef("code", "train", "s", "fiendish")
    sampler = sampler_of("levels", tasks=[strange, *EASY], window=2)
    assert strange not in play(sampler, 12, lambda _: (False, False))
    play(sampler, 1, lambda _: (True, True), first=12)
    assert strange in play(sampler, 12, lambda _: (False, False), first=13)


def play_with_banned(sampler, groups, banned):
    """Issue groups, ban tasks of these difficulties and solve the others; how often each difficulty came."""
    came = Counter()
    for index in range(groups):
        task = issue(sampler, index)
        came[task.difficulty] += 1
        sampler.ban(task) if task.difficulty in banned else sampler.group_ended(task, (True, True))
    return came


@pytest.mark.parametrize(
    "banned", [{"easy"}, {"medium"}, {"easy", "medium"}, {"hard"}, {"medium", "hard"}], ids=str
)
def test_a_level_whose_tasks_are_all_banned_counts_as_passed(banned):
    came = play_with_banned(sampler_of("levels", window=8), 100, banned)
    assert all(came[name] > 6 for name in {"easy", "medium", "hard"} - banned)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"levels": []}, "at least 1 item"),
        ({"levels": ["easy", "hard", "easy"]}, "levels has 'easy' twice"),
        ({"earlier": 1.0}, "less than 1"),
    ],
)
def test_levels_that_cannot_be_played_are_refused(settings, sentence):
    with pytest.raises(ValueError, match=sentence):
        CurriculumConfig.model_validate({"kind": "levels", **settings})


@pytest.mark.parametrize("exploration", [0.0, 0.1])
def test_adaptive_does_not_come_back_to_a_task_that_is_always_lost(exploration):
    sampler, lost, came = sampler_of("adaptive", exploration=exploration), EASY[0], Counter()
    for index in range(1500):
        task = issue(sampler, index)
        came[task] += index >= 500
        if task == lost:
            sampler.put_back(task)
        else:
            sampler.group_ended(task, (task in MEDIUM,) * 4)
    assert 0 < came[lost] < 2 * 1000 / len(ALL)


def test_adaptive_forgets_the_losses_of_a_task_that_is_played_again():
    sampler = sampler_of("adaptive", tasks=EASY[:2], exploration=0.0)
    for index in range(20):
        task = issue(sampler, index)
        sampler.put_back(task) if task == EASY[0] else sampler.group_ended(task, (True, False))
    while (task := issue(sampler, index := index + 1)) != EASY[0]:
        sampler.group_ended(task, (True, False))
    sampler.group_ended(task, (True, False))
    assert play(sampler, 100, lambda _: (True, False), first=index + 1)[EASY[0]] > 30


def test_adaptive_draws_tasks_that_sometimes_succeed_more_often():
    rates = {"easy": (True,) * 4, "medium": (True, True, False, False), "hard": (False,) * 4}
    sampler = sampler_of("adaptive", exploration=0.1)
    play(sampler, 200, lambda task: rates[task.difficulty])
    came = Counter(
        task.difficulty
        for task in play(sampler, 300, lambda task: rates[task.difficulty], first=200).elements()
    )
    assert came["medium"] > 200
    assert came["easy"] > 0
    assert came["hard"] > 0


def test_adaptive_leaves_tasks_alone_that_are_being_played():
    sampler = sampler_of("adaptive", tasks=EASY)
    assert {issue(sampler, index) for index in range(6)} == set(EASY)


def test_no_tasks_are_refused():
    with pytest.raises(DataError, match="no tasks"):
        sampler_of("shuffle", tasks=[])


@pytest.mark.parametrize(("step", "turns"), [(0, 2), (9, 2), (10, 5), (25, 8), (90, 10)])
def test_the_horizon_grows_up_to_its_bound(step, turns):
    assert horizon(HorizonConfig(first=2, add=3, every=10), step, bound=10) == turns


def test_without_a_schedule_the_horizon_is_the_bound():
    assert horizon(None, 5, bound=7) == 7
