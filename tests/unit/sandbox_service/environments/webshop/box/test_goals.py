"""Goals as they follow from products."""

import json

from sandbox_service.environments.webshop.box.goals import NO_LIMIT, Goal, human_goals, synthetic_goals
from sandbox_service.environments.webshop.box.products import ShoppingRequest
from tests.harness.webshop_products import product


def test_a_made_request_is_a_goal_for_every_combination_of_options():
    goals = synthetic_goals([product()])
    assert {goal.options for goal in goals} == {
        (("color", color), ("size", size)) for color in ("red", "blue") for size in ("small", "large")
    }
    assert {goal.attributes for goal in goals} == {("lead free",)}


def test_the_instruction_names_options_and_price_limit():
    (goal,) = synthetic_goals([product(options={"color": ("red",)})])
    assert goal.instruction == (
        f"Find me lead free mugs with color: red, and price lower than {goal.price_limit:.2f} dollars"
    )


def test_the_price_limit_is_one_of_the_next_four_multiples_of_ten_but_the_first():
    goals = synthetic_goals([product(f"B{number:09d}", options={}) for number in range(200)])
    assert {goal.price_limit for goal in goals} == {30.0, 40.0, 50.0}


def test_a_product_dearer_than_all_limits_has_none():
    (goal,) = synthetic_goals([product(price=2000.0, options={})])
    assert goal.price_limit == NO_LIMIT
    assert goal.instruction == "Find me lead free mugs"


def test_products_without_a_request_or_attributes_give_no_goal():
    nobody = [product(made_request=None), product(made_request=ShoppingRequest("Find me mugs", ()))]
    assert synthetic_goals(nobody) == []


def test_a_human_request_is_one_goal_without_its_full_stop():
    asked = ShoppingRequest("i want a mug.", ("lead free",), ("red",))
    (goal,) = human_goals([product(human_requests=(asked, ShoppingRequest("whatever", ())))])
    assert goal.instruction.startswith("i want a mug, and price lower than ")
    assert goal.options == (("", "red"),)


def test_goals_come_in_the_order_of_the_official_seed():
    goals = synthetic_goals([product(f"B{number:09d}", options={}) for number in range(8)])
    assert [int(goal.asin[1:]) for goal in goals] == [6, 7, 0, 5, 3, 1, 4, 2]


def test_a_goal_survives_json():
    for goal in synthetic_goals([product()]):
        assert Goal.from_json(json.loads(json.dumps(goal.to_json()))) == goal
