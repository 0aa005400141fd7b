"""The five AgentGym servers that the gateway emulates: their requests, responses and differences.

A dialect is data and pure functions of an EpisodeState; AgentGymOperations implements what all servers share.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from pydantic import BaseModel, JsonValue

from . import models
from .episode_state import EpisodeState, strings

Payload: TypeAlias = BaseModel | JsonValue
"""The body of a response: a model, or plain JSON if the server has no envelope."""

_MOST_HINTS = 10


@dataclass(frozen=True, slots=True)
class EnvironmentTask:
    """An environment id of a client and the number of its task."""

    id: int
    index: int


@dataclass(frozen=True, slots=True)
class ReadRoute:
    """A GET route that reads the state of an episode."""

    render: Callable[[EnvironmentTask, EpisodeState], Payload]
    result: Any
    """Type of the response, for the OpenAPI document."""
    unopened: BaseModel | None = None
    """The response before the first reset; an error if None."""


@dataclass(frozen=True, slots=True)
class ServerDialect:
    """The protocol of one server."""

    name: str
    """Path component under ``/agentgym``."""
    environment: str
    """Name of the service's environment."""
    hello: str
    """Response of the root path."""
    id_request: type[models.GameId | models.ShopId]
    reset: type[models.GameId | models.ShopId]
    index: str
    """The field of ``reset`` with the task's number."""
    step: type[models.ActionRequest | models.ShopActionRequest]
    created: Any
    opened: Any
    stepped: Any
    """Types of the responses, for the OpenAPI document."""
    render_reset: Callable[[EnvironmentTask, EpisodeState], Payload]
    render_step: Callable[[EpisodeState], BaseModel]
    reads: Mapping[str, ReadRoute] = field(default_factory=dict)
    opens_at_create: bool = False
    wraps: bool = False
    """Task numbers wrap around after the last task."""
    ends: bool = True
    """Reading the state of a finished episode is an error."""
    plain: bool = False
    """Ids have no envelope, and errors have the HTTP status of their kind."""


def _with_actions(state: EpisodeState) -> str:
    """Return the observation with the available actions, as BabyAI's server has it."""
    if not state.actions or "vailable actions:" in state.text:
        return state.text
    offered = ", ".join(f'"{action}"' for action in state.actions)
    return f"{state.text}\nAvailable actions: [{offered}]"


def _scored(state: EpisodeState, text: str, scale: float = 1.0) -> models.ScoredTurn:
    return models.ScoredTurn(
        observation=text, reward=state.reward * scale, score=round(state.score * scale, 6), done=state.done
    )


def _plain_turn(state: EpisodeState) -> models.TextCraftTurn:
    return models.TextCraftTurn(observation=state.text, reward=state.reward, done=state.done)


def _textcraft_opening(task: EnvironmentTask, state: EpisodeState) -> Payload:
    return models.TextCraftOpening(id=task.id, **_plain_turn(state).model_dump())


def _babyai_opening(_: EnvironmentTask, state: EpisodeState) -> Payload:
    return models.BabyAIOpening(**_scored(state, _with_actions(state)).model_dump())


def _babyai_observation(_: EnvironmentTask, state: EpisodeState) -> Payload:
    goal = "" if not state.moves else f"Your goal: {state.text_of('goal')}\n" if state.text_of("goal") else ""
    return models.BabyAIOpening(**_scored(state, goal + _with_actions(state)).model_dump())


def _science_turn(state: EpisodeState) -> models.ScoredTurn:
    return _science_scored(state, state.text)


def _science_scored(state: EpisodeState, text: str) -> models.ScoredTurn:
    """Return the scores in percent, as ScienceWorld's server has them."""
    return _scored(state, text, 100.0)


def _science_opening(_: EnvironmentTask, state: EpisodeState) -> models.SciWorldOpening:
    return models.SciWorldOpening(
        **_science_scored(state, state.after_description).model_dump(),
        task_name=state.text_of("task_name") or state.text_of("category"),
        var_num=state.variation,
        task_description=state.description,
    )


def _science_hints(_: EnvironmentTask, state: EpisodeState) -> models.Hints:
    objects = strings(state.info.get("possible_objects"))
    return models.Hints(possible_actions=state.actions, possible_objects=objects)


def _science_state(task: EnvironmentTask, state: EpisodeState) -> Payload:
    hints = _science_hints(task, state)
    return models.SciWorldState(
        observation=state.after_description,
        inventory=state.text_of("inventory"),
        task_description=state.description,
        goal_progress=state.text_of("goals"),
        possible_actions=hints.possible_actions[:_MOST_HINTS],
        possible_objects=hints.possible_objects[:_MOST_HINTS],
        current_moves=state.moves,
        environment_info=_science_opening(task, state).model_dump(),
    )


def _alfworld_turn(state: EpisodeState) -> models.AlfWorldTurn:
    return models.AlfWorldTurn(**_plain_turn(state).model_dump(), available_actions=state.actions)


def _alfworld_opening(task: EnvironmentTask, state: EpisodeState) -> Payload:
    kind = state.text_of("category")
    named = state.task_id if state.task_id.startswith(kind) else f"{kind}/{state.task_id}"
    return models.AlfWorldOpening(
        id=task.id, observation=state.text, available_actions=state.actions, task_type=named
    )


def _alfworld_detail(task: EnvironmentTask, state: EpisodeState) -> Payload:
    turn = _alfworld_turn(state).model_dump()
    return models.AlfWorldDetail(**turn, world_type="Text", game=task.index)


def _page_turn(state: EpisodeState) -> models.PageTurn:
    return models.PageTurn(state=state.text, reward=state.reward, done=state.done)


def _page_actions(_: EnvironmentTask, state: EpisodeState) -> Payload:
    # AgentGym's server lists the button beside the search bar, which has no effect.
    clickables = ["search", *state.clickables] if state.searchable else state.clickables
    return models.ShopActions(has_search_bar=state.searchable, clickables=clickables)


def _page(_: EnvironmentTask, state: EpisodeState) -> Payload:
    return models.ShopPage(url="", html=state.text, instruction_text=state.instruction)


def _text(_: EnvironmentTask, state: EpisodeState) -> Payload:
    return state.text


_TEXT = ReadRoute(_text, str)

_TEXTCRAFT = ServerDialect(
    name="textcraft",
    environment="textcraft",
    hello="This is environment TextCraft.",
    id_request=models.GameId,
    reset=models.TextCraftReset,
    index="data_idx",
    step=models.ActionRequest,
    created=models.TextCraftOpening,
    opened=models.TextCraftOpening,
    stepped=models.TextCraftTurn,
    render_reset=_textcraft_opening,
    render_step=_plain_turn,
    reads={
        "observation": _TEXT,
        "detail": ReadRoute(
            lambda _, state: models.TextCraftDetail(**_plain_turn(state).model_dump()), models.TextCraftDetail
        ),
    },
    opens_at_create=True,
    wraps=True,
    ends=False,
)
_BABYAI = ServerDialect(
    name="babyai",
    environment="babyai",
    hello="This is environment BabyAI.",
    id_request=models.GameId,
    reset=models.ItemReset,
    index="data_idx",
    step=models.ActionRequest,
    created=models.Created,
    opened=models.BabyAIOpening,
    stepped=models.ScoredTurn,
    render_reset=_babyai_opening,
    render_step=lambda state: _scored(state, _with_actions(state)),
    reads={
        "observation": ReadRoute(
            _babyai_observation,
            models.BabyAIOpening,
            models.BabyAIOpening(
                observation="Environment not initialized", reward=0.0, score=0.0, done=False
            ),
        )
    },
)
_SCIWORLD = ServerDialect(
    name="sciworld",
    environment="scienceworld",
    hello="This is environment ScienceWorld.",
    id_request=models.GameId,
    reset=models.ItemReset,
    index="data_idx",
    step=models.ActionRequest,
    created=models.Created,
    opened=models.SciWorldOpening,
    stepped=models.ScoredTurn,
    render_reset=_science_opening,
    render_step=_science_turn,
    reads={
        "observation": ReadRoute(lambda _, state: state.after_description, str),
        "action_hint": ReadRoute(_science_hints, models.Hints),
        "goals": ReadRoute(lambda _, state: models.Goals(goals=state.text_of("goals")), models.Goals),
        "detail": ReadRoute(_science_opening, models.SciWorldOpening),
        "task_description": ReadRoute(
            lambda _, state: models.TaskDescription(task_description=state.description),
            models.TaskDescription,
        ),
        "state": ReadRoute(_science_state, models.SciWorldState),
    },
)
_ALFWORLD = ServerDialect(
    name="alfworld",
    environment="alfworld",
    hello="This is environment AlfWorld.",
    id_request=models.GameId,
    reset=models.AlfWorldReset,
    index="game",
    step=models.ActionRequest,
    created=models.Created,
    opened=models.AlfWorldOpening,
    stepped=models.AlfWorldTurn,
    render_reset=_alfworld_opening,
    render_step=_alfworld_turn,
    reads={
        "observation": _TEXT,
        "available_actions": ReadRoute(lambda _, state: list(state.actions), list[str]),
        "detail": ReadRoute(_alfworld_detail, models.AlfWorldDetail),
    },
)
_WEBSHOP = ServerDialect(
    name="webshop",
    environment="webshop",
    hello="ok",
    id_request=models.ShopId,
    reset=models.ShopReset,
    index="session_id",
    step=models.ShopActionRequest,
    created=int,
    opened=tuple[str, None],
    stepped=models.PageTurn,
    render_reset=lambda _, state: [state.text, None],
    render_step=_page_turn,
    reads={
        "observation": _TEXT,
        "available_actions": ReadRoute(_page_actions, models.ShopActions),
        "instruction_text": ReadRoute(lambda _, state: state.instruction, str),
        "state": ReadRoute(_page, models.ShopPage),
    },
    ends=False,
    plain=True,
)
DIALECTS = (_TEXTCRAFT, _BABYAI, _SCIWORLD, _ALFWORLD, _WEBSHOP)
