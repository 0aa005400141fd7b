"""The gateway's memory of takeovers is small, and only ever a hint."""

from sandbox_service.fleet.new_owners import NewOwners


def own_id(number: int) -> str:
    return f"a.{number:032x}"


def test_an_instance_belongs_to_the_supervisor_that_its_id_names_until_another_took_it_over():
    new_owners = NewOwners()
    mine, other = own_id(0), own_id(1)
    assert new_owners.owner(mine) == "a"
    assert new_owners.owner("chosen") is None
    new_owners.note(mine, "b")
    new_owners.note("chosen", "c")
    assert [new_owners.owner(each) for each in (mine, other, "chosen")] == ["b", "a", "c"]
    new_owners.note(mine, "a")
    new_owners.forget("chosen")
    assert [new_owners.owner(each) for each in (mine, "chosen")] == ["a", None]


def test_the_oldest_takeovers_are_forgotten_first():
    new_owners = NewOwners(most=2)
    for number in range(3):
        new_owners.note(own_id(number), "b")
    assert [new_owners.owner(own_id(number)) for number in range(3)] == ["a", "b", "b"]
