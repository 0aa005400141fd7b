"""References solve every task, with a customer and without; the descriptor says what an episode offers."""

import pytest

from sandbox_service.config import BikeRentalConfig
from sandbox_service.environments.bike_rental.service.catalog import BikeRentalCatalog
from sandbox_service.environments.bike_rental.service.generator import TASKS
from tests.harness.rental_desk import Conversation, first_task


@pytest.mark.parametrize("user", ["scripted", "solo"])
@pytest.mark.parametrize("split", TASKS)
def test_every_reference_scores_one_and_ends_its_episode(split: str, user: str) -> None:
    catalog = BikeRentalCatalog(BikeRentalConfig(user=user))
    for task_id in catalog.task_ids(split):
        conversation = Conversation(task_id, user)
        verdict = conversation.play(conversation.reference)
        assert (verdict.score, verdict.success) == (1.0, True), (task_id, verdict.details)
        assert [each.terminated for each in conversation.outcomes].count(True) == 1
        assert len(conversation.outcomes) == len(conversation.reference)


def test_a_model_customer_has_no_reference() -> None:
    catalog = BikeRentalCatalog(BikeRentalConfig(user="model"))
    assert catalog.reference(first_task("cancel")) == []


def test_the_box_gets_the_customer_and_not_the_solution() -> None:
    conversation = Conversation(first_task("membership"))
    assert set(conversation.payload.grading) == {"calls", "facts"}
    assert "set_membership" not in str(conversation.payload.task)


def test_steps_are_limited_by_the_operator() -> None:
    catalog = BikeRentalCatalog(BikeRentalConfig(max_steps=12))
    assert catalog.payload(first_task("cancel")).max_steps == catalog.describe().max_steps == 12
