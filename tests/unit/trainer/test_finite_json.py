import json
import math

from trainer.finite_json import finite


def test_numbers_that_are_not_finite_become_null_wherever_they_are():
    tree = {"kl": math.nan, "rates": (1.5, -math.inf, 2), "name": "a", "none": None, "sure": True}
    told = json.dumps(finite(tree), allow_nan=False)
    assert json.loads(told) == {"kl": None, "rates": [1.5, None, 2], "name": "a", "none": None, "sure": True}
