"""The gateway's memory of takeovers is small, and only ever a hint."""

from sandbox_service.fleet.heirs import Heirs


def test_an_instance_belongs_to_the_supervisor_that_its_id_names_until_another_took_it_over():
    heirs = Heirs()
    assert heirs.owner("a.x") == "a"
    assert heirs.owner("chosen") is None
    heirs.note("a.x", "b")
    heirs.note("chosen", "c")
    assert [heirs.owner(each) for each in ("a.x", "a.y", "chosen")] == ["b", "a", "c"]
    heirs.note("a.x", "a")
    heirs.forget("chosen")
    assert [heirs.owner(each) for each in ("a.x", "chosen")] == ["a", None]


def test_the_oldest_takeovers_are_forgotten_first():
    heirs = Heirs(most=2)
    for number in range(3):
        heirs.note(f"a.{number}", "b")
    assert [heirs.owner(f"a.{number}") for number in range(3)] == ["a", "b", "b"]
