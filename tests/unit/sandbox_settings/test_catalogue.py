from collections.abc import Callable, Mapping
from typing import ClassVar, Literal

from sandbox_settings import Branch, Setting, settings_of
from trainer.config import RunConfig

KINDS = "left: The one. right: The other one."


class Left(Branch):
    """The one."""

    kind: Literal["left"] = "left"
    size: int = 1
    """The size."""


class Right(Branch):
    """The other one."""

    kind: Literal["right"] = "right"
    names: tuple[str, ...]


class Root(Branch):
    shorthands: ClassVar[Mapping[str, Callable[[object], object]]] = {"short": lambda given: given}

    side: Left | Right = Left(size=5)
    """The side."""
    other: Left | Right = Left()
    maybe: Left | Right | None = None
    """A side, if any."""
    short: Left | Right | None = None
    one: Left | None = None
    pair: tuple[int, int] | None = (1, 2)
    flag: bool = True


def test_every_setting_is_listed_with_its_kinds_type_default_and_meaning() -> None:
    assert list(settings_of(Root)) == [
        Setting("side.kind", (), '"left", "right"', '"left"', "The side."),
        Setting("side.size", ("left",), "whole number", "5", "The size."),
        Setting("side.names", ("right",), "list of texts", "required", ""),
        Setting("other.kind", (), '"left", "right"', '"left"', KINDS),
        Setting("other.size", ("left",), "whole number", "1", "The size."),
        Setting("other.names", ("right",), "list of texts", "required", ""),
        Setting("maybe", (), '"left", "right", none', "none", "A side, if any."),
        Setting("maybe.kind", (), '"left", "right"', "required", KINDS),
        Setting("maybe.size", ("left",), "whole number", "1", "The size."),
        Setting("maybe.names", ("right",), "list of texts", "required", ""),
        Setting("short", (), '"left", "right", none', "none", KINDS),
        Setting("short.kind", (), '"left", "right"', "implied", KINDS),
        Setting("short.size", ("left",), "whole number", "1", "The size."),
        Setting("short.names", ("right",), "list of texts", "required", ""),
        Setting("one", (), '"left", none', "none", "The one."),
        Setting("one.kind", (), '"left"', '"left"', ""),
        Setting("one.size", (), "whole number", "1", "The size."),
        Setting("pair", (), "pair of whole numbers, none", "[1, 2]", ""),
        Setting("flag", (), "true or false", "true", ""),
    ]


def test_a_branch_that_changes_defaults_of_its_model_is_listed_with_its_own() -> None:
    found = {setting.key: setting.default for setting in settings_of(RunConfig)}
    assert found["warm_start.optimizer.schedule"] == '"cosine"'
    assert found["learner.optimizer.schedule"] == '"constant"'
    assert found["algorithm.advantage.kind"] == '"grpo"'
    assert found["model.path"] == "required"
