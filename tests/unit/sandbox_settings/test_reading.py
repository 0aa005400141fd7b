import pytest

from sandbox_settings import Branch, SettingsError, read_settings


class Dish(Branch):
    """An entry of a list of groups."""

    name: str
    portions: int = 1


class Menu(Branch):
    """The root of settings with lists."""

    dishes: tuple[Dish, ...] = ()
    closed: tuple[str, ...] = ("monday",)


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "menu.toml"
    path.write_text('closed = ["monday", "tuesday"]\n[[dishes]]\nname = "soup"\n[[dishes]]\nname = "stew"\n')
    return path


def read(file, *overrides):
    return read_settings(Menu, file, overrides, example="dishes.0.portions=2")


def test_an_override_changes_one_entry_of_a_list_by_its_number(file):
    menu = read(file, "dishes.1.portions=4", "closed.0=sunday")
    assert menu.dishes == (Dish(name="soup"), Dish(name="stew", portions=4))
    assert menu.closed == ("sunday", "tuesday")


@pytest.mark.parametrize(
    "key", ["dishes.2.portions", "dishes.-1.portions", "dishes.soup.portions", "closed.2"]
)
def test_an_entry_that_a_list_does_not_have_is_refused(file, key):
    with pytest.raises(SettingsError, match="is none of the list's entries, numbered from 0 to 1"):
        read(file, f"{key}=2")


def test_an_entry_of_an_empty_list_is_refused(file):
    with pytest.raises(SettingsError, match="0 is none of the list's entries, of which there are none"):
        read(file, "dishes=[]", "dishes.0.portions=2")


def test_a_value_within_a_value_is_refused(file):
    with pytest.raises(SettingsError, match="name is a value, not a group of settings"):
        read(file, "dishes.0.name.length=2")
