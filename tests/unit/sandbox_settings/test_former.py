import json
import logging
from typing import ClassVar, Literal

import pytest

from sandbox_settings import (
    Branch,
    FormerNames,
    FormerValues,
    Removed,
    SettingsError,
    read_settings,
    read_stored,
)


class Kettle(Branch):
    """The source of heat."""

    litres: float = 1.0
    watts: int = 2000


class Kitchen(Branch):
    """The root of settings of which some had other names."""

    kettle: Kettle = Kettle()
    guests: int = 0
    tea: Literal["black", "herbal"] = "black"

    former_names: ClassVar[FormerNames] = {
        "kettle.power": "kettle.watts",
        "heat": "kettle.watts",
        "pot": "kettle",
        "visitors": "guests",
        "kettle.whistle": Removed("listen to the water"),
        "tea": FormerValues({"camomile": "herbal"}),
    }


@pytest.fixture
def warnings(caplog):
    caplog.set_level(logging.WARNING)
    return lambda: [record.getMessage() for record in caplog.records]


def read(*overrides, file=None):
    return read_settings(Kitchen, file, overrides, example="guests=2")


def test_a_file_may_use_a_former_name_and_the_log_gives_the_present_one(tmp_path, warnings):
    file = tmp_path / "kitchen.toml"
    file.write_text("visitors = 3\n[kettle]\npower = 1500\n")
    assert read(file=file) == Kitchen(guests=3, kettle=Kettle(watts=1500))
    assert warnings() == [
        f"{file}: the setting kettle.power is now kettle.watts; "
        "the next version does not accept the former name",
        f"{file}: the setting visitors is now guests; the next version does not accept the former name",
    ]


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ("visitors=3", Kitchen(guests=3)),
        ("kettle.power=1500", Kitchen(kettle=Kettle(watts=1500))),
        ("pot.litres=2", Kitchen(kettle=Kettle(litres=2.0))),
    ],
)
def test_an_override_may_use_a_former_name_also_of_its_group(override, expected, warnings):
    assert read(override) == expected
    (sentence,) = warnings()
    assert sentence.startswith(f"override {override.partition('=')[0]}: the setting ")


def test_present_names_are_read_without_a_warning(tmp_path, warnings):
    file = tmp_path / "kitchen.toml"
    file.write_text("guests = 3\n[kettle]\nwatts = 1500\n")
    assert read("guests=4", file=file).guests == 4
    assert warnings() == []


def test_a_later_file_and_an_override_win_whichever_name_they_use(tmp_path):
    (tmp_path / "base.toml").write_text("guests = 1\n[kettle]\nwatts = 1\nlitres = 3\n")
    (tmp_path / "own.toml").write_text('extends = "base.toml"\nvisitors = 2\n[kettle]\npower = 2\n')
    assert read(file=tmp_path / "own.toml") == Kitchen(guests=2, kettle=Kettle(watts=2, litres=3.0))
    assert read("visitors=5", "kettle.watts=7", file=tmp_path / "own.toml") == Kitchen(
        guests=5, kettle=Kettle(watts=7, litres=3.0)
    )


def test_both_names_in_one_file_are_refused(tmp_path):
    file = tmp_path / "kitchen.toml"
    file.write_text("visitors = 3\nguests = 2\n")
    with pytest.raises(SettingsError, match="guests is also set under its former name visitors: remove that"):
        read(file=file)


def test_a_removed_setting_has_no_effect_and_the_log_says_what_to_do(tmp_path, warnings):
    file = tmp_path / "kitchen.toml"
    file.write_text("[kettle]\nwhistle = true\n")
    assert read("kettle.whistle=false", file=file) == Kitchen()
    text = "the setting kettle.whistle was removed and has no effect; listen to the water"
    assert warnings() == [f"{file}: {text}", f"override kettle.whistle: {text}"]


def test_a_stored_configuration_of_an_earlier_version_is_read_silently(warnings):
    stored = {"pot": {"litres": 2.0}, "visitors": 3}
    assert read_stored(Kitchen, json.dumps(stored)) == Kitchen(guests=3, kettle=Kettle(litres=2.0))
    assert read_stored(Kitchen, json.dumps({"kettle": {"whistle": True, "power": 3}})).kettle.watts == 3
    assert read_stored(Kitchen, Kitchen(guests=4).model_dump_json()) == Kitchen(guests=4)
    assert warnings() == []


def test_a_former_value_is_replaced_and_the_log_gives_the_present_one(tmp_path, warnings):
    file = tmp_path / "kitchen.toml"
    file.write_text('tea = "camomile"\n')
    assert read(file=file) == read("tea=camomile") == Kitchen(tea="herbal")
    assert read_stored(Kitchen, '{"tea": "camomile"}') == Kitchen(tea="herbal")
    text = "tea=camomile is now tea=herbal; the next version does not accept the former value"
    assert warnings() == [f"{file}: {text}", f"override tea: {text}"]


def test_present_and_wrong_values_of_such_a_setting_are_left_to_validation(warnings):
    assert read("tea=herbal") == Kitchen(tea="herbal")
    for wrong in ("tea=mate", "tea=3"):
        with pytest.raises(SettingsError, match="tea"):
            read(wrong)
    assert warnings() == []


@pytest.mark.parametrize("text", ["", "[]", '{"guest": 1}'])
def test_a_stored_configuration_that_is_none_is_refused(text):
    with pytest.raises(SettingsError):
        read_stored(Kitchen, text)


def test_a_setting_that_moves_into_a_value_is_refused(tmp_path):
    file = tmp_path / "kitchen.toml"
    file.write_text("heat = 3\nkettle = 3\n")
    with pytest.raises(SettingsError, match=r"kettle.watts: kettle is a value, not a group of settings"):
        read(file=file)


def test_a_setting_may_move_into_another_group(tmp_path):
    file = tmp_path / "kitchen.toml"
    file.write_text("heat = 3\n")
    assert read(file=file) == read("heat=3") == Kitchen(kettle=Kettle(watts=3))
