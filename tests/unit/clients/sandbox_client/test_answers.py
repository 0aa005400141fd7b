"""Problem documents of other versions of the service."""

import pytest

from sandbox_client._answers import operation_error
from sandbox_contract.problems import FailureClass

PROBLEM = {"code": "of_a_later_version", "detail": "words", "retryable": True, "more": 1}


@pytest.mark.parametrize(
    ("sent", "read"), [("of_a_later_version", FailureClass.SANDBOX), ("capacity", FailureClass.CAPACITY)]
)
def test_a_failure_of_a_later_service_keeps_its_code_and_whether_to_repeat_it(
    sent: str, read: FailureClass
) -> None:
    error = operation_error(503, {**PROBLEM, "failure_class": sent})
    assert (error.failure_class, error.code, error.retryable) == (read, "of_a_later_version", True)


def test_a_body_that_names_no_class_is_no_problem_document() -> None:
    assert operation_error(503, PROBLEM).code == "invalid_response"
