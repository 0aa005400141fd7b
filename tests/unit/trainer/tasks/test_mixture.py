"""Several sources in one run: shares of the groups, phases, and failures that stay with their source."""

from collections import Counter

import pytest

from trainer.config import TasksConfig
from trainer.errors import DataError
from trainer.tasks.mixture import run_sampler
from trainer.types import GroupSpec, TaskRef

TASKS = [
    TaskRef(environment, "train", f"{name}{number}", source=name)
    for name, environment in (("sums", "code"), ("programs", "code"), ("games", "openspiel"))
    for number in range(5)
]


def source(name, environment="code", **settings):
    return {"name": name, "environment": environment, **settings}


def config(*weights, **settings):
    named = zip((("sums", "code"), ("programs", "code"), ("games", "openspiel")), weights, strict=False)
    sources = [source(name, environment, weight=weight) for (name, environment), weight in named]
    return TasksConfig.model_validate({"sources": sources, **settings})


def play(sampler, count, first=0, step=lambda _: 0, fate=lambda sampler, task: None):
    """Issue groups and end each by its fate; the sources in order."""
    order = []
    for index in range(first, first + count):
        task = sampler.draw(index, step(index))
        sampler.issued(GroupSpec(index, task, seed=0, size=2, max_turns=4, step=step(index)))
        (fate(sampler, task) if fate else None)
        order.append(task.source)
    return order


def ended(sampler, task):
    sampler.group_ended(task, (True, False))


def test_each_source_has_its_share_of_any_stretch_of_groups() -> None:
    order = play(run_sampler(TASKS, config(3, 2, 1), 0), 60, fate=ended)
    assert Counter(order) == {"sums": 30, "programs": 20, "games": 10}
    for groups in range(1, 60):
        came = Counter(order[:groups])
        shares = {"sums": 3 / 6, "programs": 2 / 6, "games": 1 / 6}
        assert all(abs(came[name] - share * groups) < 1 for name, share in shares.items())


def test_every_task_of_a_source_comes_once_an_epoch() -> None:
    sampler, seen = run_sampler(TASKS, config(1, 1, 1), 0), Counter()
    play(sampler, 15, fate=lambda _, task: seen.update([task.task_id]))
    assert set(seen.values()) == {1}
    assert len(seen) == 15


def test_a_source_whose_groups_all_fail_takes_its_share_and_no_more() -> None:
    def fate(sampler, task):
        sampler.put_back(task) if task.source == "sums" else ended(sampler, task)

    order = play(run_sampler(TASKS, config(1, 1, 1), 0), 60, fate=fate)
    assert Counter(order) == {"sums": 20, "programs": 20, "games": 20}


def test_a_source_whose_tasks_are_all_broken_leaves_the_others_to_go_on() -> None:
    def fate(sampler, task):
        sampler.ban(task) if task.source == "games" else ended(sampler, task)

    sampler = run_sampler(TASKS, config(1, 1, 1), 0)
    order = play(sampler, 60, fate=fate)
    assert Counter(order)["games"] == 5
    assert sampler.sampling_metrics()["source/games/tasks_banned"] == 5
    with pytest.raises(DataError, match="all tasks of all sources of this phase are broken"):
        play(run_sampler(TASKS, config(1, 1, 1), 0), 60, fate=lambda sampler, task: sampler.ban(task))


def test_phases_have_their_own_sources() -> None:
    phases = [
        {"steps": 2, "sources": ["sums"]},
        {"steps": 1, "sources": ["programs", "games"]},
        {"steps": 2, "sources": ["sums", "games"]},
    ]
    sampler = run_sampler(TASKS, config(1, 1, 3, phases=phases), 0)
    order = play(sampler, 20, step=lambda index: index // 4, fate=ended)
    assert Counter(order[:8]) == {"sums": 8}
    assert Counter(order[8:12]) == {"programs": 1, "games": 3}
    assert Counter(order[12:]) == {"sums": 2, "games": 6}


def test_the_same_events_lead_to_the_same_tasks() -> None:
    settings = config(3, 2, 1, phases=[{"steps": 3, "sources": ["sums", "games"]}] * 2)
    events = []
    first = run_sampler(TASKS, settings, 7)
    play(first, 10, step=lambda index: index // 2, fate=lambda _, task: events.append(task))
    again = run_sampler(TASKS, settings, 7)
    for index, task in enumerate(events):
        assert again.draw(index, index // 2) == task
        again.issued(GroupSpec(index, task, seed=0, size=2, max_turns=4, step=index // 2))
    assert again.draw(10, 5) == first.draw(10, 5)


def test_a_run_of_one_environment_is_sampled_as_ever() -> None:
    alone = [task for task in TASKS if task.source == "sums"]
    sampler = run_sampler(alone, TasksConfig(), 0)
    assert "tasks/epoch" in sampler.sampling_metrics()


def test_a_source_without_tasks_is_named() -> None:
    with pytest.raises(DataError, match="the source games has no tasks"):
        run_sampler(TASKS[:10], config(1, 1, 1), 0)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"sources": [source(""), source("")]}, "two sources are named code"),
        ({"sources": [source("a")], "splits": ["x"]}, "splits belongs to a run without sources"),
        (
            {"sources": [source("a")], "phases": [{"steps": 1, "sources": ["b"]}]},
            "phase b names the source 'b'; there are: a",
        ),
        ({"phases": [{"steps": 1, "sources": ["b"]}]}, "there are: none; set sources"),
        ({"sources": [source("a", weight=0)]}, "greater than 0"),
    ],
)
def test_sources_and_phases_that_do_not_fit_are_refused(settings, sentence) -> None:
    with pytest.raises(ValueError, match=sentence):
        TasksConfig.model_validate(settings)


def test_stored_settings_with_sources_can_be_read_again() -> None:
    settings = config(1, 2)
    assert TasksConfig.model_validate(settings.model_dump(mode="json")) == settings
    assert settings.environments == ("code",)
    assert settings.source_of("code") == "sums"
