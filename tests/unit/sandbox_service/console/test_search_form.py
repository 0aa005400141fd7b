"""The search form: queries, and addresses of related pages."""

import pytest

from sandbox_service.console.search_form import (
    EXPORT,
    TASKS,
    FormError,
    encode_place,
    query_of,
    read_form,
)
from sandbox_service.trajectories.search import Place


def test_a_page_without_a_field_ignores_it():
    form = read_form({"task": "a", "least_reward": "much"}, ("task",))
    assert query_of(form, "ada", None).least_reward is None


def test_the_whole_id_is_wanted_where_the_form_says_so():
    assert query_of(read_form({"task": "a", "exact": "1"}), "ada", None).exact_task
    assert not query_of(read_form({"task": "a"}), "ada", None).exact_task


@pytest.mark.parametrize("value", ["-1", "1.5", "many", "9" * 12])
def test_steps_are_a_number(value):
    with pytest.raises(FormError, match="most_steps"):
        query_of(read_form({"most_steps": value}), "ada", None)


def test_steps_and_text_are_conditions():
    query = query_of(read_form({"least_steps": "2", "most_steps": "30", "text": " a b "}), "ada", None)
    assert (query.least_steps, query.most_steps, query.text) == (2, 30, "a b")


def test_addresses_have_the_values_that_are_filled_in_and_the_changes():
    form = read_form({"task": "a b", "failure": "any"})
    assert form.url(EXPORT) == "/console/export?task=a+b&failure=any"
    assert form.url(failure="", exact="1") == "/console/episodes?task=a+b&exact=1"
    assert read_form({}).url(TASKS) == "/console/tasks"


def test_the_next_page_keeps_the_form_and_begins_at_the_end_of_this_one():
    end = Place(2.5, "s1.a")
    assert read_form({"task": "a"}).next_url(end, TASKS, sort="graded") == (
        "/console/tasks?task=a&before=2.5+s1.a&sort=graded"
    )
    assert read_form({}).next_url(None) is None
    assert query_of(read_form({}), "ada", encode_place(end)).before == end
