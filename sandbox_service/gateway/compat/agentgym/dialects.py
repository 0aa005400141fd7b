"""The five AgentGym servers that we stand in for: what each takes and answers, and where they differ.

A dialect is data and pure functions over a Scene; ``agentgym`` does what all have in common.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from pydantic import BaseModel, JsonValue

from . import models
from .scenes import Scene, strings

Told: TypeAlias = BaseModel | JsonValue
"""What is answered: a model, or plain JSON where a server has no envelope."""

_MOST_HINTS = 10


@dataclass(frozen=True, slots=True)
class Place:
    """Where a client plays, and which task."""

    id: int
    index: int


@dataclass(frozen=True, slots=True)
class Look:
    """A GET route that tells about an episode."""

    answer: Callable[[Place, Scene], Told]
    result: Any
    """Type of the answer, for the API document."""
    unopened: BaseModel | None = None
    """The answer before the first reset; an error when missing."""


@dataclass(frozen=True, slots=True)
class Dialect:
    """One server."""

    name: str
    """In the path."""
    environment: str
    """Ours."""
    greeting: str
    place: type[models.GameId | models.ShopId]
    reset: type[models.GameId | models.ShopId]
    index: str
    """The field of reset that has the task's number."""
    act: type[models.Turn | models.ShopAct]
    created: Any
    opened: Any
    stepped: Any
    """Types of the answers, for the API document."""
    opening: Callable[[Place, Scene], Told]
    turn: Callable[[Scene], BaseModel]
    looks: Mapping[str, Look] = field(default_factory=dict)
    opens_at_create: bool = False
    wraps: bool = False
    """Numbers past the last task begin anew."""
    ends: bool = True
    """A finished episode tells nothing any more."""
    plain: bool = False
    """Ids come without an envelope, errors with the status of their kind."""


def _with_actions(scene: Scene) -> str:
    """BabyAI's observations name the actions."""
    if not scene.actions or "vailable actions:" in scene.text:
        return scene.text
    offered = ", ".join(f'"{action}"' for action in scene.actions)
    return f"{scene.text}\nAvailable actions: [{offered}]"


def _scored(scene: Scene, text: str, scale: float = 1.0) -> dict[str, Any]:
    head = {"observation": text, "reward": scene.reward * scale, "score": round(scene.score * scale, 6)}
    return {**head, "done": scene.done}


def _plain_turn(scene: Scene) -> models.TextCraftTurn:
    return models.TextCraftTurn(observation=scene.text, reward=scene.reward, done=scene.done)


def _textcraft_opening(place: Place, scene: Scene) -> Told:
    return models.TextCraftOpening(id=place.id, **_plain_turn(scene).model_dump())


def _babyai_opening(_: Place, scene: Scene) -> Told:
    return models.BabyAIOpening(**_scored(scene, _with_actions(scene)))


def _babyai_observation(_: Place, scene: Scene) -> Told:
    goal = "" if not scene.moves else f"Your goal: {scene.told('goal')}\n" if scene.told("goal") else ""
    return models.BabyAIOpening(**_scored(scene, goal + _with_actions(scene)))


def _science_turn(scene: Scene) -> models.ScoredTurn:
    return models.ScoredTurn(**_science_scored(scene, scene.text))


def _science_scored(scene: Scene, text: str) -> dict[str, Any]:
    """ScienceWorld counts in percent; ours is a share."""
    return _scored(scene, text, 100.0)


def _science_opening(_: Place, scene: Scene) -> models.SciWorldOpening:
    return models.SciWorldOpening(
        **_science_scored(scene, scene.after_description),
        task_name=scene.told("task_name") or scene.told("category"),
        var_num=scene.variation,
        task_description=scene.description,
    )


def _science_hints(_: Place, scene: Scene) -> models.Hints:
    objects = strings(scene.info.get("possible_objects"))
    return models.Hints(possible_actions=scene.actions, possible_objects=objects)


def _science_state(place: Place, scene: Scene) -> Told:
    hints = _science_hints(place, scene)
    return models.SciWorldState(
        observation=scene.after_description,
        inventory=scene.told("inventory"),
        task_description=scene.description,
        goal_progress=scene.told("goals"),
        possible_actions=hints.possible_actions[:_MOST_HINTS],
        possible_objects=hints.possible_objects[:_MOST_HINTS],
        current_moves=scene.moves,
        environment_info=_science_opening(place, scene).model_dump(),
    )


def _alfworld_turn(scene: Scene) -> models.AlfWorldTurn:
    return models.AlfWorldTurn(**_plain_turn(scene).model_dump(), available_actions=scene.actions)


def _alfworld_opening(place: Place, scene: Scene) -> Told:
    kind = scene.told("category")
    named = scene.task_id if scene.task_id.startswith(kind) else f"{kind}/{scene.task_id}"
    return models.AlfWorldOpening(
        id=place.id, observation=scene.text, available_actions=scene.actions, task_type=named
    )


def _alfworld_detail(place: Place, scene: Scene) -> Told:
    turn = _alfworld_turn(scene).model_dump()
    return models.AlfWorldDetail(**turn, world_type="Text", game=place.index)


def _page_turn(scene: Scene) -> models.PageTurn:
    return models.PageTurn(state=scene.text, reward=scene.reward, done=scene.done)


def _page_actions(_: Place, scene: Scene) -> Told:
    # The button beside the search bar can be clicked there, to no effect.
    clickables = ["search", *scene.clickables] if scene.searchable else scene.clickables
    return models.ShopActions(has_search_bar=scene.searchable, clickables=clickables)


def _page(_: Place, scene: Scene) -> Told:
    return models.Page(url="", html=scene.text, instruction_text=scene.instruction)


def _text(_: Place, scene: Scene) -> Told:
    return scene.text


_TEXT = Look(_text, str)

_TEXTCRAFT = Dialect(
    name="textcraft",
    environment="textcraft",
    greeting="This is environment TextCraft.",
    place=models.GameId,
    reset=models.TextCraftReset,
    index="data_idx",
    act=models.Turn,
    created=models.TextCraftOpening,
    opened=models.TextCraftOpening,
    stepped=models.TextCraftTurn,
    opening=_textcraft_opening,
    turn=_plain_turn,
    looks={
        "observation": _TEXT,
        "detail": Look(
            lambda _, scene: models.TextCraftDetail(**_plain_turn(scene).model_dump()), models.TextCraftDetail
        ),
    },
    opens_at_create=True,
    wraps=True,
    ends=False,
)
_BABYAI = Dialect(
    name="babyai",
    environment="babyai",
    greeting="This is environment BabyAI.",
    place=models.GameId,
    reset=models.ItemReset,
    index="data_idx",
    act=models.Turn,
    created=models.Created,
    opened=models.BabyAIOpening,
    stepped=models.ScoredTurn,
    opening=_babyai_opening,
    turn=lambda scene: models.ScoredTurn(**_scored(scene, _with_actions(scene))),
    looks={
        "observation": Look(
            _babyai_observation,
            models.BabyAIOpening,
            models.BabyAIOpening(
                observation="Environment not initialized", reward=0.0, score=0.0, done=False
            ),
        )
    },
)
_SCIWORLD = Dialect(
    name="sciworld",
    environment="scienceworld",
    greeting="This is environment ScienceWorld.",
    place=models.GameId,
    reset=models.ItemReset,
    index="data_idx",
    act=models.Turn,
    created=models.Created,
    opened=models.SciWorldOpening,
    stepped=models.ScoredTurn,
    opening=_science_opening,
    turn=_science_turn,
    looks={
        "observation": Look(lambda _, scene: scene.after_description, str),
        "action_hint": Look(_science_hints, models.Hints),
        "goals": Look(lambda _, scene: models.Goals(goals=scene.told("goals")), models.Goals),
        "detail": Look(_science_opening, models.SciWorldOpening),
        "task_description": Look(
            lambda _, scene: models.TaskDescription(task_description=scene.description),
            models.TaskDescription,
        ),
        "state": Look(_science_state, models.SciWorldState),
    },
)
_ALFWORLD = Dialect(
    name="alfworld",
    environment="alfworld",
    greeting="This is environment AlfWorld.",
    place=models.GameId,
    reset=models.AlfWorldReset,
    index="game",
    act=models.Turn,
    created=models.Created,
    opened=models.AlfWorldOpening,
    stepped=models.AlfWorldTurn,
    opening=_alfworld_opening,
    turn=_alfworld_turn,
    looks={
        "observation": _TEXT,
        "available_actions": Look(lambda _, scene: list(scene.actions), list[str]),
        "detail": Look(_alfworld_detail, models.AlfWorldDetail),
    },
)
_WEBSHOP = Dialect(
    name="webshop",
    environment="webshop",
    greeting="ok",
    place=models.ShopId,
    reset=models.ShopReset,
    index="session_id",
    act=models.ShopAct,
    created=int,
    opened=tuple[str, None],
    stepped=models.PageTurn,
    opening=lambda _, scene: [scene.text, None],
    turn=_page_turn,
    looks={
        "observation": _TEXT,
        "available_actions": Look(_page_actions, models.ShopActions),
        "instruction_text": Look(lambda _, scene: scene.instruction, str),
        "state": Look(_page, models.Page),
    },
    ends=False,
    plain=True,
)
DIALECTS = (_TEXTCRAFT, _BABYAI, _SCIWORLD, _ALFWORLD, _WEBSHOP)
