from __future__ import annotations

import pytest

from deploy.joining import check_vacancy
from local_processes.readiness import NotReadyError


@pytest.mark.parametrize(
    ("applications", "named"),
    [
        ({"sandbox-service": "/"}, "'sandbox-service' at /"),
        ({"sandbox-service": None}, "'sandbox-service' at /"),
        ({"models": "/v1", "training": "/"}, "'training' at /"),
    ],
    ids=["this service", "one that is being deployed", "a service of another name"],
)
def test_a_cluster_that_serves_already_is_refused_with_the_application(
    applications: dict[str, str | None], named: str
):
    with pytest.raises(NotReadyError, match=named):
        check_vacancy(applications, "sandbox-service")


@pytest.mark.parametrize("applications", [{}, {"models": "/v1"}], ids=["none", "one at another route"])
def test_applications_that_are_not_in_the_way_may_stay(applications: dict[str, str | None]):
    check_vacancy(applications, "sandbox-service")
