"""Supervisors of another version are no members."""

from __future__ import annotations

import pickle
from dataclasses import replace

from sandbox_service.fleet.members import mismatch_of
from sandbox_service.supervisor.options import SupervisorAddress, running_version

ADDRESS = SupervisorAddress("s1", "node", "/socket", "10.0.0.7", 4000, "secret")


def test_a_supervisor_of_the_same_version_is_admitted() -> None:
    assert mismatch_of("s1", ADDRESS, running_version()) is None


def test_the_error_of_another_version_names_both_versions_the_node_and_what_to_do() -> None:
    error = mismatch_of("s1", replace(ADDRESS, version="0.9.1"), "1.0.0")
    assert error is not None
    assert error.detail == (
        "node 10.0.0.7 (supervisor s1) has version 0.9.1 of the service, and the gateways have version "
        "1.0.0: install 1.0.0 there and start its Ray again"
    )
    assert pickle.loads(pickle.dumps(error)).detail == error.detail


def test_an_address_from_before_versions_were_sent_is_of_another_version() -> None:
    former = SupervisorAddress.__new__(SupervisorAddress)
    # As dataclasses with slots are unpickled: by position, and without what was not there.
    former.__setstate__(ADDRESS.__getstate__()[:-1])
    error = mismatch_of("s1", former, "1.0.0")
    assert error is not None
    assert "version unknown" in error.detail
