"""The gateway's memory of takeovers is small, and only ever a hint."""

from sandbox_service.fleet.new_owners import NewOwners


def test_an_instance_belongs_to_the_supervisor_that_its_id_names_until_another_took_it_over():
    new_owners = NewOwners()
    assert new_owners.owner("a.x") == "a"
    assert new_owners.owner("chosen") is None
    new_owners.note("a.x", "b")
    new_owners.note("chosen", "c")
    assert [new_owners.owner(each) for each in ("a.x", "a.y", "chosen")] == ["b", "a", "c"]
    new_owners.note("a.x", "a")
    new_owners.forget("chosen")
    assert [new_owners.owner(each) for each in ("a.x", "chosen")] == ["a", None]


def test_the_oldest_takeovers_are_forgotten_first():
    new_owners = NewOwners(most=2)
    for number in range(3):
        new_owners.note(f"a.{number}", "b")
    assert [new_owners.owner(f"a.{number}") for number in range(3)] == ["a", "b", "b"]
