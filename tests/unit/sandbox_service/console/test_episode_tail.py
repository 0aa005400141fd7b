"""The tail of an episode: which steps an open page lacks, and where it asks for later ones."""

import pytest

from sandbox_contract.inspection import Event, InstanceTrajectory
from sandbox_service.console.episode_tail import tail_of, tail_url
from sandbox_service.console.player import player


def episode(*operations, run_ms=(), more=None, first=0, name="i-1"):
    """An episode's page with these operations, each with the milliseconds that it ran."""
    times = [*run_ms, *[1.0] * (len(operations) - len(run_ms))]
    events = tuple(
        Event(sequence=number, operation=operation, at=0.0, timing={"run_ms": ms})
        for number, (operation, ms) in enumerate(zip(operations, times, strict=True), start=first)
    )
    head = {"instance_id": name, "environment": "echo", "task_id": "t", "tenant": "ada"}
    return player(InstanceTrajectory(**head, events=events, next_cursor=more))


def test_only_the_steps_after_the_last_one_that_is_shown_are_sent():
    tail = tail_of(episode("create", "step", "step", "evaluate"), after=1)
    assert [step.sequence for step in tail.steps] == [2, 3]
    assert tail.arrived == 2


def test_all_steps_are_sent_when_a_new_one_changes_the_scale_of_the_timing_bars():
    view = episode("create", "step", "step", run_ms=(1.0, 2.0, 3.0))
    tail = tail_of(view, after=1)
    assert [step.sequence for step in tail.steps] == [0, 1, 2]
    assert tail.arrived == 1
    assert tail_of(episode("create", "step", run_ms=(2.0, 2.0)), after=0).steps[0].sequence == 1


def test_a_page_on_which_nothing_was_gets_everything():
    tail = tail_of(episode("create", "step"), after=-1)
    assert (len(tail.steps), tail.arrived) == (2, 2)


@pytest.mark.parametrize(
    ("view", "cursor", "url"),
    [
        (episode("create", "step"), None, "/console/episodes/i-1/tail?after=1"),
        (episode("step", first=7), "6", "/console/episodes/i-1/tail?cursor=6&after=7"),
        (episode(), None, "/console/episodes/i-1/tail"),
        (episode("create", name="a.b:c"), None, "/console/episodes/a.b%3Ac/tail?after=0"),
        (episode("create", "release"), None, None),
        (episode("create", "lost"), None, None),
        (episode("create", more="0"), None, None),
    ],
    ids=["first page", "later page", "no event yet", "name", "released", "lost", "full page"],
)
def test_a_page_asks_for_later_events_until_none_can_follow_on_it(view, cursor, url):
    assert tail_url(view, cursor) == url
