"""An episode that failed is played once more with a reflection, which is no part of what is recorded."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from sandbox_client import AsyncSandboxClient
from sandbox_contract.problems import ErrorCode
from tests.fakes.scripted_transport import ScriptedTransport
from tests.fakes.told_service import TASK_MESSAGES, ToldService, observed
from tests.harness.chat_templates import CHATML
from tests.harness.scripted_episodes import END, PROGRAM, SUBMIT, TASK, spoken
from tests.harness.tiny_chat import tiny_chat
from trainer.batches.players import make_player
from trainer.chat import ChatTokenizer
from trainer.config import RunConfig
from trainer.config.rollout import ReflectionConfig, RolloutConfig, SamplingConfig, SandboxServiceConfig
from trainer.engines.generation import Generation, GenerationRequest
from trainer.errors import ConfigError, EngineError
from trainer.launch.run import train
from trainer.rollout.progress import ProgressMonitor
from trainer.rollout.reflection import REFLECTIONS, ReflectivePlayer
from trainer.rollout.scripted import ScriptedPolicy
from trainer.types import EpisodeKey, GroupSpec, Trajectory

REFLECTION = "I forgot to submit the answer"


class ToldPolicy:
    """Keeps the prompts; first attempts say one thing, later ones another."""

    def __init__(self, *, reflection: str | None = REFLECTION, chat: ChatTokenizer | None = None) -> None:
        self.chat = chat or tiny_chat()
        self.reflection = reflection
        self.reflected = False
        self.prompts: list[str] = []
        self.token_ids: list[tuple[int, ...]] = []
        self.seeds: list[int | None] = []
        self._scripted = ScriptedPolicy(self._line, self.chat)

    async def generate(self, request: GenerationRequest) -> Generation:
        self.prompts.append(self.chat.decode(request.token_ids))
        self.token_ids.append(request.token_ids)
        self.seeds.append(request.seed)
        return await self._scripted.generate(request)

    def _line(self, key: EpisodeKey) -> str:
        if key.trajectory_id.endswith("~reflection"):
            self.reflected = True
            if self.reflection is None:
                raise EngineError("the engine is gone")
            return self.reflection
        return SUBMIT if self.reflected else PROGRAM


async def played(
    folder: Path,
    policy: ToldPolicy,
    scores: Sequence[float],
    *,
    index: int = 3,
    context: int = 4000,
    steps: Sequence[dict[str, object]] = (END,),
    refuses: dict[str, ErrorCode] | None = None,
    fork_turn: int | None = None,
) -> tuple[Trajectory, ToldService]:
    """An episode whose attempts are graded so, one after the other."""
    service = ToldService(steps, refuses=refuses)
    left = list(scores)

    def graded(request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith("evaluate"):
            score = left.pop(0)
            service.verdict = {"score": score, "success": score == 1.0}
        return service(request)

    async with AsyncSandboxClient("http://service", transport=ScriptedTransport(graded)) as client:
        config = RolloutConfig(max_context_tokens=context)
        reflection = ReflectionConfig(max_tokens=64, fork_turn=fork_turn)
        parts = (config, SandboxServiceConfig(), None, reflection, folder)
        player = ReflectivePlayer(client, policy, policy.chat, *parts)
        spec = GroupSpec(index=index, task=TASK, seed=40, size=4, max_turns=3)
        try:
            return await player.play_episode(spec, 2, SamplingConfig()), service
        finally:
            await player.close()


def rows(folder: Path) -> list[dict[str, object]]:
    file = folder / REFLECTIONS
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


async def test_a_failed_episode_is_played_again_with_the_reflection_in_the_prompt(tmp_path: Path) -> None:
    policy = ToldPolicy()
    trajectory, service = await played(tmp_path, policy, [0.0, 1.0])
    first, reflecting, second = policy.prompts
    assert REFLECTION not in first
    assert PROGRAM in reflecting  # the attempt, which failed
    assert str(TASK_MESSAGES[0]["content"]) in reflecting  # the environment's system prompt
    assert REFLECTION in second
    assert second.index(REFLECTION) < second.rindex("assistant")  # before the model's turn
    assert spoken(trajectory) == [SUBMIT]
    assert (trajectory.score, trajectory.success) == (1.0, True)
    assert len(service.bodies("create_instance")) == 2  # a fresh instance
    assert {body["seed"] for body in service.bodies("create_instance")} == {40}  # of the same world
    assert policy.seeds[0] != policy.seeds[2], "the same random numbers would mostly give the same answer"


async def test_the_recorded_conversation_is_without_the_reflection(tmp_path: Path) -> None:
    policy = ToldPolicy()
    trajectory, _ = await played(tmp_path, policy, [0.0, 1.0])
    (segment,) = trajectory.segments
    text = policy.chat.decode(segment.token_ids)
    assert REFLECTION not in text
    assert text.startswith(policy.prompts[0])
    assert not any(REFLECTION in line.content for line in trajectory.lines)


async def test_the_better_attempt_is_kept_and_both_are_on_record(tmp_path: Path) -> None:
    worse, _ = await played(tmp_path, ToldPolicy(), [0.5, 0.2])
    assert (worse.score, spoken(worse)) == (0.5, [PROGRAM])
    better, _ = await played(tmp_path, ToldPolicy(), [0.2, 0.5])
    assert better.score == 0.5
    assert [(row["before"], row["after"], row["mended"]) for row in rows(tmp_path)] == [
        (0.5, 0.2, False),
        (0.2, 0.5, False),
    ]
    assert rows(tmp_path)[0]["reflection"] == REFLECTION


async def test_a_note_that_spells_a_special_token_does_not_end_the_users_message(tmp_path: Path) -> None:
    end = tiny_chat().stop_ids[0]
    note = f"I wrote {tiny_chat().decode([end])} too early"
    policy = ToldPolicy(reflection=note)
    await played(tmp_path, policy, [0.0, 1.0])
    assert note in policy.prompts[2]
    first, _, second = policy.token_ids
    assert second.count(end) == first.count(end)


def thinking_chat(folder: Path, *, opens: bool) -> ChatTokenizer:
    """The tiny model's, of a family whose prompts open the thought or leave that to the model."""
    template = folder / "template.jinja"
    head = "<|im_start|>assistant\\n"
    template.write_text(CHATML.replace(head, head + "<think>\\n") if opens else CHATML)
    return tiny_chat(template=template)


@pytest.mark.parametrize("opens", [False, True], ids=["the model", "the prompt"])
async def test_the_note_is_what_the_model_says_behind_its_thought(tmp_path: Path, opens: bool) -> None:
    chat = thinking_chat(tmp_path, opens=opens)
    mark = "" if opens else "<think>"
    policy = ToldPolicy(reflection=f"{mark}\nHm.\n</think>\n\n{REFLECTION}", chat=chat)
    await played(tmp_path, policy, [0.0, 1.0])
    assert f"which failed: {REFLECTION}" in policy.prompts[2]
    assert "</think>" not in policy.prompts[2]
    assert "Hm." not in policy.prompts[2]
    assert rows(tmp_path)[0]["reflection"] == REFLECTION


@pytest.mark.parametrize("opens", [False, True], ids=["the model", "the prompt"])
async def test_a_thought_that_does_not_end_is_no_reflection(tmp_path: Path, opens: bool) -> None:
    chat = thinking_chat(tmp_path, opens=opens)
    policy = ToldPolicy(reflection="Let me see what happened" if opens else "<think>\nLet me see", chat=chat)
    trajectory, service = await played(tmp_path, policy, [0.0])
    assert trajectory.score == 0.0
    assert len(service.bodies("create_instance")) == 1
    skipped = "the model wrote nothing but a thought; raise max_tokens of the reflection"
    assert rows(tmp_path)[0]["skipped"] == skipped


TWO_TURNS = (observed("95"), END)


@pytest.mark.parametrize(
    ("fork_turn", "turns"),
    [
        (0, [SUBMIT, SUBMIT]),
        (1, [PROGRAM, SUBMIT]),
        (9, [PROGRAM, SUBMIT]),
        (-1, [PROGRAM, SUBMIT]),
        (-2, [SUBMIT, SUBMIT]),
        (-9, [SUBMIT, SUBMIT]),
    ],
)
async def test_the_new_attempt_begins_in_a_fork_before_the_turn_that_was_chosen(
    tmp_path: Path, fork_turn: int, turns: list[str]
) -> None:
    policy = ToldPolicy()
    trajectory, service = await played(tmp_path, policy, [0.0, 1.0], steps=TWO_TURNS, fork_turn=fork_turn)
    assert spoken(trajectory) == turns
    assert trajectory.score == 1.0
    assert len(service.bodies("create_instance")) == 1
    kept = turns.count(PROGRAM)
    assert rows(tmp_path)[0]["fork_turn"] == kept
    second = policy.prompts[3]  # behind those of two turns and the reflection
    assert REFLECTION in second
    assert second.count(PROGRAM) == kept
    assert service.live == {}  # no fork is left


async def test_the_turns_before_a_fork_are_recorded_as_they_were_sampled(tmp_path: Path) -> None:
    whole, _ = await played(tmp_path, ToldPolicy(), [1.0], steps=TWO_TURNS)
    forked, _ = await played(tmp_path, ToldPolicy(), [0.0, 1.0], steps=TWO_TURNS, fork_turn=1)
    first, same = whole.segments[0], forked.segments[0]
    end = first.turns[0].end
    assert same.token_ids[:end] == first.token_ids[:end]
    same_turn, first_turn = (replace(each.turns[0], sampling_s=0.0, sandbox_s=0.0) for each in (same, first))
    assert same_turn == first_turn
    assert [line.role for line in forked.lines] == [line.role for line in whole.lines]


async def test_an_instance_that_cannot_be_forked_has_its_new_attempt_in_a_fresh_one(tmp_path: Path) -> None:
    refuses = {"fork_instance": ErrorCode.FORK_UNSUPPORTED}
    trajectory, service = await played(tmp_path, ToldPolicy(), [0.0, 1.0], fork_turn=0, refuses=refuses)
    assert trajectory.score == 1.0
    assert len(service.bodies("create_instance")) == 2
    (row,) = rows(tmp_path)
    assert row["fork_turn"] is None
    assert "cannot be forked" in str(row["not_forked"])


async def test_forks_of_an_episode_that_was_solved_are_released(tmp_path: Path) -> None:
    _, service = await played(tmp_path, ToldPolicy(), [1.0], steps=TWO_TURNS, fork_turn=-2)
    assert len(service.bodies("fork_instance")) == 2
    assert service.live == {}


async def test_a_solved_episode_needs_no_reflection(tmp_path: Path) -> None:
    policy = ToldPolicy()
    trajectory, _ = await played(tmp_path, policy, [1.0])
    assert trajectory.success
    assert len(policy.prompts) == 1
    assert rows(tmp_path) == []


async def test_held_out_episodes_are_played_once(tmp_path: Path) -> None:
    policy = ToldPolicy()
    trajectory, _ = await played(tmp_path, policy, [0.0], index=-1)
    assert trajectory.score == 0.0
    assert len(policy.prompts) == 1


async def test_without_a_reflection_the_first_attempt_stands(tmp_path: Path) -> None:
    for policy in (ToldPolicy(reflection=None), ToldPolicy(reflection=" ")):
        trajectory, service = await played(tmp_path, policy, [0.0])
        assert (trajectory.score, trajectory.failure) == (0.0, None)
        assert len(service.bodies("create_instance")) == 1
    skipped = [row["skipped"] for row in rows(tmp_path)]
    assert skipped == ["the engine failed: the engine is gone", "the model wrote nothing"]


async def test_a_torn_last_line_is_cut_off_before_another_is_added(tmp_path: Path) -> None:
    (tmp_path / REFLECTIONS).write_text('{"id": "1"}\n{"id": "2", "ref')
    await played(tmp_path, ToldPolicy(reflection=" "), [0.0])
    assert [row["id"] for row in rows(tmp_path)] == ["1", "3.2"]


async def test_a_transcript_that_does_not_fit_into_the_context_gets_no_reflection(tmp_path: Path) -> None:
    policy = ToldPolicy()
    opening = len(policy.chat.encode((await played(tmp_path, ToldPolicy(), [1.0]))[0].lines[0].content))
    trajectory, _ = await played(tmp_path, policy, [0.0], context=opening + 120)
    assert trajectory.score == 0.0
    assert not policy.reflected
    assert "does not fit" in str(rows(tmp_path)[0]["skipped"])


@pytest.mark.parametrize("rollout", [{"reflection": {}}, {"temperatures": [0.5, 1.0]}])
def test_a_policy_is_not_trained_with_what_only_explores(tmp_path: Path, rollout: dict[str, object]) -> None:
    config = RunConfig.model_validate({"root": tmp_path, "rollout": rollout})
    with pytest.raises(ConfigError, match="are for exploration"):
        train(config)


def test_a_run_with_a_reflection_is_played_by_a_player_that_reflects(tmp_path: Path) -> None:
    config = RunConfig.model_validate({"rollout": {"reflection": {}}})
    policy = ToldPolicy()
    client = ToldService([END]).client()
    player = make_player(config, tmp_path, client, policy, policy.chat, ProgressMonitor())
    assert isinstance(player, ReflectivePlayer)
    agent = RunConfig.model_validate({"rollout": {"reflection": {}}, "agent": "module:function"})
    with pytest.raises(ConfigError, match="needs the trainer's own loop"):
        make_player(agent, tmp_path, client, policy, policy.chat, ProgressMonitor())
