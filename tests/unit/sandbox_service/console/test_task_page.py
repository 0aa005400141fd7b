"""The task browser's order, links and bounds."""

import pytest

from sandbox_service.console.search_form import FormError
from sandbox_service.console.task_page import (
    MOST_ROWS,
    check_environment,
    read_order,
    read_task_form,
    task_page,
)
from sandbox_service.trajectories.search import EpisodeSummary, Place


def episodes(*tasks):
    return [
        EpisodeSummary(Place(100.0 - number, f"s1.{number}"), f"s1.{number}", "echo", task, None, None, None)
        for number, task in enumerate(tasks)
    ]


def page_of(*tasks, end=None, **parameters):
    return task_page(episodes(*tasks), end, read_task_form(parameters), read_order(parameters), before="")


def column(page, title):
    return next(each for each in page.columns if each.title == title)


def test_a_column_links_to_its_order_and_the_chosen_one_to_the_reverse():
    page = page_of("a", sort="pass_rate", order="descending", environment="echo")
    chosen, other = column(page, "pass rate"), column(page, "spread")
    assert (chosen.state, other.state) == ("descending", "none")
    assert chosen.url == "/console/tasks?environment=echo&sort=pass_rate&order=ascending"
    assert other.url == "/console/tasks?environment=echo&sort=spread&order=descending"


def test_a_task_links_to_its_own_episodes_of_the_time_range():
    (task,) = page_of("a b", since="2026-01-31").tasks
    assert task.episodes_url == ("/console/episodes?environment=echo&task=a+b&exact=1&since=2026-01-31")


def test_the_page_says_how_far_it_looked_and_how_to_go_on():
    page = page_of("a", "a", "b", end=Place(98.0, "s1.2"), sort="graded")
    assert (page.looked_at, page.oldest) == (3, 98.0)
    assert page.next_url == "/console/tasks?before=98.0+s1.2&sort=graded&order=ascending"
    assert page_of().oldest is None


def test_a_page_lists_a_bounded_number_of_tasks():
    page = page_of(*(f"t{number:04}" for number in range(MOST_ROWS + 3)))
    assert (len(page.tasks), page.unlisted) == (MOST_ROWS, 3)


@pytest.mark.parametrize("wrong", [{"sort": "size"}, {"order": "up"}, {"sort": "__class__"}])
def test_an_order_that_there_is_not_is_refused_by_name(wrong):
    (name, value) = next(iter(wrong.items()))
    with pytest.raises(FormError, match=f"{name}: '{value}' is not one of"):
        read_order(wrong)


def test_an_environment_that_is_not_served_is_refused():
    check_environment(read_task_form({}), ["echo"])
    with pytest.raises(FormError, match="environment: 'ecko' is not one of: echo"):
        check_environment(read_task_form({"environment": "ecko"}), ["echo"])
