"""The fleet is refreshed for an owner that is not in it, but not at every call."""

from sandbox_service.fleet.absent_owners import AbsentOwners


def test_the_fleet_is_refreshed_for_each_absent_owner_once_in_a_pause():
    absent = AbsentOwners(pause_s=5.0)
    assert [absent.begin_refresh("a", now) for now in (0.0, 4.9, 5.0, 9.9)] == [True, False, True, False]
    assert absent.begin_refresh("b", 9.9)


def test_only_the_latest_owners_are_remembered():
    absent = AbsentOwners(most=2)
    assert all(absent.begin_refresh(name, 0.0) for name in ("a", "b", "c"))
    assert [absent.begin_refresh(name, 0.0) for name in ("c", "b", "a")] == [False, False, True]
