"""Models of the bodies that AgentGym's environment clients send and receive.

Names, types and the absence of an envelope are those of its servers. Unknown fields are ignored, since the
clients send fields that only some servers read.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, JsonValue


def _no_boolean(value: object) -> object:
    """Reject booleans; numbers may be strings, as in a query."""
    if isinstance(value, bool):
        raise ValueError("Input should be a valid integer")  # noqa: TRY004  # pydantic takes ValueError alone
    return value


MOST_ID = 2**53 - 1
"""Largest id: every JSON parser represents it exactly."""
# The bounds come before the validator: pydantic documents none that follow one.
Id = Annotated[int, Field(ge=0, le=MOST_ID), BeforeValidator(_no_boolean)]
Index = Annotated[int, Field(ge=0, le=MOST_ID), BeforeValidator(_no_boolean)]


class _Lenient(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore", use_attribute_docstrings=True)


class GameId(_Lenient):
    """The id of an environment."""

    id: Id
    """The id that create returned."""


class ActionRequest(GameId):
    """One action."""

    action: str
    """The action in the environment's syntax."""


class ItemReset(GameId):
    """Start a task."""

    data_idx: Index
    """Number of the task in the environment's order."""


class TextCraftReset(GameId):
    """Start a task."""

    data_idx: Index | None = 0
    """Number of the task in the environment's order; wraps around."""


class AlfWorldReset(GameId):
    """Start a game."""

    game: Index
    """Number of the game in the environment's order."""
    world_type: str
    """``Text``, ``Embody`` or ``Hybrid``; all are played as text."""


class ShopId(_Lenient):
    """The id of a shopping environment."""

    env_idx: Id
    """The id that create returned."""


class ShopActionRequest(ShopId):
    """One action."""

    action: str
    """``search[...]`` or ``click[...]``."""


class ShopReset(ShopId):
    """Start a session."""

    session_id: Index | None = None
    """Number of the goal in the environment's order; a random one if missing."""


class AgentGymFailure(_Lenient):
    """An error, which most servers of this protocol return with status 200."""

    error: str
    """The error message."""
    code: str
    """The stable error code."""
    failure_class: str
    """The party at fault; an error is never a reward."""


class Created(_Lenient):
    """A new environment."""

    id: int
    """The id for all later calls."""


class TextCraftTurn(_Lenient):
    """The result of an action."""

    observation: str
    """The text of the observation."""
    reward: float
    """Reward of this action."""
    done: bool
    """Whether the episode is over."""


class TextCraftOpening(TextCraftTurn):
    """The first observation of a task."""

    id: int
    """The id of the environment."""


class TextCraftDetail(TextCraftTurn):
    """The state of the episode."""

    deleted: bool = False
    """Always false: reading a closed environment is an error."""


class ScoredTurn(TextCraftTurn):
    """The result of an action and the score so far."""

    score: float
    """The score so far."""


class BabyAIOpening(ScoredTurn):
    """The first observation of a task."""

    deleted: bool = False
    """Always false."""


class SciWorldOpening(BabyAIOpening):
    """The first observation of a task."""

    task_name: str
    """The kind of task."""
    var_num: int
    """The task's variation."""
    task_description: str
    """The task description."""


class Hints(_Lenient):
    """Possible actions and objects."""

    possible_actions: list[str]
    """Actions, if the environment reports them."""
    possible_objects: list[str]
    """Objects, if the environment reports them."""


class Goals(_Lenient):
    """Progress towards the goals."""

    goals: str
    """As text; empty if the environment does not report it."""


class TaskDescription(_Lenient):
    """The task."""

    task_description: str
    """The task description."""


class SciWorldState(_Lenient):
    """The whole state of an episode."""

    observation: str
    """The text of the observation."""
    inventory: str
    """The agent's inventory, if the environment reports it."""
    task_description: str
    """The task description."""
    goal_progress: str
    """Progress towards the goals, if the environment reports it."""
    possible_actions: list[str]
    """The first ten actions."""
    possible_objects: list[str]
    """The first ten objects."""
    current_moves: int
    """Actions taken."""
    environment_info: dict[str, JsonValue]
    """The response of ``/detail``."""


class AlfWorldTurn(TextCraftTurn):
    """The result of an action."""

    available_actions: list[str]
    """Actions that the game accepts now."""


class AlfWorldOpening(_Lenient):
    """The first observation of a game."""

    id: int
    """The id of the environment."""
    observation: str
    """The text of the observation."""
    available_actions: list[str]
    """Actions that the game accepts now."""
    task_type: str
    """The kind of task and the task."""


class AlfWorldDetail(AlfWorldTurn):
    """The state of the episode."""

    world_type: str
    """Always ``Text``."""
    game: int
    """Number of the game."""
    deleted: bool = False
    """Always false."""


class PageTurn(_Lenient):
    """The result of an action."""

    state: str
    """The page as text."""
    reward: float
    """Reward of this action."""
    done: bool
    """Whether the session is over."""
    info: None = None
    """Always null."""


class ShopActions(_Lenient):
    """Possible actions on the page."""

    has_search_bar: bool
    """Whether there is a search bar."""
    clickables: list[str]
    """Labels that can be clicked."""


class ShopPage(_Lenient):
    """The page."""

    url: str
    """Empty: pages are text and have no address."""
    html: str
    """The page as text."""
    instruction_text: str
    """The shopping instruction."""
