"""Generated tasks: enough of them, each another, and no one of the training data in the held-out ones."""

import json
from collections import Counter

import pytest

from sandbox_service.environments.bike_rental.box.policy import RULES, system_prompt
from sandbox_service.environments.bike_rental.box.rental_data import make_database
from sandbox_service.environments.bike_rental.service.generator import TASKS, TWO_REQUESTS, generate_tasks
from sandbox_service.environments.bike_rental.service.wishes import WISHES


def test_there_are_hundreds_of_tasks_and_most_train() -> None:
    sizes = {split: len(generate_tasks(split)) for split in TASKS}
    assert sizes == {"train": 170, "validation": 51, "test": 68}


@pytest.mark.parametrize("split", TASKS)
def test_every_category_is_in_every_split(split: str) -> None:
    counts = Counter(task.category for task in generate_tasks(split))
    assert counts == {**dict.fromkeys(WISHES, TASKS[split]), TWO_REQUESTS: 2 * TASKS[split]}


def test_tasks_differ_from_each_other() -> None:
    tasks = [task for split in TASKS for task in generate_tasks(split)]
    assert len({task.id for task in tasks}) == len(tasks)
    assert len({json.dumps([task.database, task.ticket()]) for task in tasks}) == len(tasks)


def test_splits_share_no_customer() -> None:
    people = [{each["email"] for each in make_database(split)["customers"].values()} for split in TASKS]
    assert sum(map(len, people)) == len(set().union(*people))


def test_generating_again_gives_the_same_tasks() -> None:
    tasks = generate_tasks("test")
    generate_tasks.cache_clear()
    assert generate_tasks("test") == tasks


@pytest.mark.parametrize("split", TASKS)
def test_every_task_expects_a_write(split: str) -> None:
    """So that doing nothing never solves one."""
    assert all(task.grading()["calls"] for task in generate_tasks(split))


def test_riders_who_are_too_young_for_a_new_booking_may_change_one_as_the_policy_says() -> None:
    """Rule 3 asks for the first rule that forbids a request, and the minimum age is the second of all."""
    young = [
        (wish.say, *wish.calls[0])
        for split in TASKS
        for task in generate_tasks(split)
        if task.customer["birth_year"] > 2008
        for wish in task.wishes
    ]
    changed = [name for _, name, _ in young if name in ("change_dates", "change_bike", "set_options")]
    refused = {say for say, _, arguments in young if arguments.get("rule") == "minimum_age"}
    assert changed
    assert refused == {"I would like to rent a bike."}
    assert "bookings that exist may be changed at any age" in system_prompt(customer=True)


def test_requests_are_declined_for_every_rule() -> None:
    tasks = [task for split in TASKS for task in generate_tasks(split)]
    calls = [call for task in tasks for call in task.grading()["calls"]]
    assert {arguments["rule"] for name, arguments in calls if name == "record_refusal"} == set(RULES)
