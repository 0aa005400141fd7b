"""What AgentGym's environment clients send and are answered: one model a body.

Names, types and the absence of an envelope are those of its servers. Unknown fields are ignored, since its
clients send some that only other servers read.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, JsonValue


def _no_boolean(value: object) -> object:
    """Numbers may be written as text, as in a query, but true and false are none."""
    if isinstance(value, bool):
        raise ValueError("Input should be a valid integer")  # noqa: TRY004  # pydantic takes ValueError alone
    return value


MOST_ID = 2**53 - 1
"""Greatest id: every JSON reader keeps it exactly."""
Id = Annotated[int, BeforeValidator(_no_boolean), Field(ge=0, le=MOST_ID)]
Index = Annotated[int, BeforeValidator(_no_boolean), Field(ge=0, le=MOST_ID)]


class _Lenient(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore", use_attribute_docstrings=True)


class GameId(_Lenient):
    """An episode's place."""

    id: Id
    """The id that create gave."""


class Turn(GameId):
    """One action."""

    action: str
    """The action in the environment's own words."""


class ItemReset(GameId):
    """Begin a task."""

    data_idx: Index
    """Number of the task in the environment's order."""


class TextCraftReset(GameId):
    """Begin a task."""

    data_idx: Index | None = 0
    """Number of the task in the environment's order, which it wraps around."""


class AlfWorldReset(GameId):
    """Begin a game."""

    game: Index
    """Number of the game in the environment's order."""
    world_type: str
    """``Text``, ``Embody`` or ``Hybrid``; all are played as text."""


class ShopId(_Lenient):
    """A shopping session's place."""

    env_idx: Id
    """The id that create gave."""


class ShopAct(ShopId):
    """One action."""

    action: str
    """``search[...]`` or ``click[...]``."""


class ShopReset(ShopId):
    """Begin a session."""

    session_id: Index | None = None
    """Number of the goal in the environment's order; any when missing."""


class AgentGymFailure(_Lenient):
    """An error, which most servers of this protocol answer with status 200."""

    error: str
    """What is wrong, in a sentence."""
    code: str
    """The stable error code."""
    failure_class: str
    """Whose failure it is; an error is never a reward."""


class Created(_Lenient):
    """A place for episodes."""

    id: int
    """The id for all later calls."""


class TextCraftTurn(_Lenient):
    """What an action led to."""

    observation: str
    """What the environment says."""
    reward: float
    """Reward of this action."""
    done: bool
    """The episode is over."""


class TextCraftOpening(TextCraftTurn):
    """A task's beginning."""

    id: int
    """The episode's place."""


class TextCraftDetail(TextCraftTurn):
    """Where the episode stands."""

    deleted: bool = False
    """Always false: a place that was closed is an error."""


class ScoredTurn(TextCraftTurn):
    """What an action led to, and how the episode stands."""

    score: float
    """How the episode stands."""


class BabyAIOpening(ScoredTurn):
    """A task's beginning."""

    deleted: bool = False
    """Always false."""


class SciWorldOpening(BabyAIOpening):
    """A task's beginning."""

    task_name: str
    """The kind of task."""
    var_num: int
    """The task's variation."""
    task_description: str
    """What is to be done."""


class Hints(_Lenient):
    """What can be done."""

    possible_actions: list[str]
    """Actions, where the environment tells them."""
    possible_objects: list[str]
    """Objects, where the environment tells them."""


class Goals(_Lenient):
    """Progress towards the goals."""

    goals: str
    """As text; empty where the environment does not tell."""


class TaskDescription(_Lenient):
    """The task."""

    task_description: str
    """What is to be done."""


class SciWorldState(_Lenient):
    """Everything that is told of an episode."""

    observation: str
    """What the environment says."""
    inventory: str
    """What the agent carries, where the environment tells."""
    task_description: str
    """What is to be done."""
    goal_progress: str
    """Progress towards the goals, where the environment tells."""
    possible_actions: list[str]
    """The first ten actions."""
    possible_objects: list[str]
    """The first ten objects."""
    current_moves: int
    """Actions taken."""
    environment_info: dict[str, JsonValue]
    """As ``/detail``."""


class AlfWorldTurn(TextCraftTurn):
    """What an action led to."""

    available_actions: list[str]
    """Actions that the game understands now."""


class AlfWorldOpening(_Lenient):
    """A game's beginning."""

    id: int
    """The episode's place."""
    observation: str
    """What the environment says."""
    available_actions: list[str]
    """Actions that the game understands now."""
    task_type: str
    """The kind of task and the task."""


class AlfWorldDetail(AlfWorldTurn):
    """Where the episode stands."""

    world_type: str
    """Always ``Text``."""
    game: int
    """Number of the game."""
    deleted: bool = False
    """Always false."""


class PageTurn(_Lenient):
    """What an action led to."""

    state: str
    """The page as text."""
    reward: float
    """Reward of this action."""
    done: bool
    """The session is over."""
    info: None = None
    """Always null."""


class ShopActions(_Lenient):
    """What can be done on the page."""

    has_search_bar: bool
    """Whether there is a search bar."""
    clickables: list[str]
    """What can be clicked."""


class Page(_Lenient):
    """The page."""

    url: str
    """Empty: pages are text and have no address."""
    html: str
    """The page as text."""
    instruction_text: str
    """What is to be bought."""
