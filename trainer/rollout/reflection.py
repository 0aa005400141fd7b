"""Play episodes again that failed, with the model's own reflection on the failure in the prompt.

Reflexion (Shinn et al. 2023, arXiv 2303.11366): an attempt that failed is shown to the model, which writes
what went wrong, and plays the task again in a fresh instance, or on from a turn of the first attempt in a
fork of its instance. The better attempt is the episode. The reflection, without the model's thoughts, is
added to what the engine reads, behind the task, and is no part of the recorded conversation: a model trained
on the new attempt learns to act so without it. Memory over more than one attempt is left out.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from sandbox_contract.messages import Message
from trainer.appended_lines import cut_torn_line
from trainer.chat.thoughts import thought_before
from trainer.engines.generation import GenerationRequest, Sampling
from trainer.engines.seeds import other_draw
from trainer.errors import EngineError, Stalled
from trainer.types import EpisodeKey

from .episode import EpisodePlayer
from .forks import TurnForks

if TYPE_CHECKING:
    from sandbox_client import AsyncSandboxClient
    from trainer.chat import ChatTokenizer
    from trainer.config.rollout import (
        ReflectionConfig,
        RolloutConfig,
        SamplingConfig,
        SandboxServiceConfig,
    )
    from trainer.engines.generation import Generation, Policy
    from trainer.types import GroupSpec, Trajectory

    from .progress import ProgressMonitor

REFLECTIONS = "reflections.jsonl"
"""File in the run's folder with a line for each reflection."""

_ASK = """\
You attempted a task and did not solve it. This is the task and your attempt:

{transcript}

{instruction}"""
_HINT = "\n\nNote from an earlier attempt, which failed: "
_ONLY_THOUGHT = "the model wrote nothing but a thought; raise max_tokens of the reflection"


@dataclass(frozen=True, slots=True)
class _Hint:
    """Tokens that are inserted at a place of an episode's prompts."""

    opening: tuple[int, ...]
    """Tokens of the opening up to the place."""
    tokens: tuple[int, ...]


class HintedPolicy:
    """Implements ``Policy`` around another one: inserts an episode's hint into its prompts, and samples the
    episode with other random numbers.
    """

    def __init__(self, policy: Policy, context_tokens: int) -> None:
        self._policy = policy
        self._context = context_tokens
        self._hints: dict[str, _Hint] = {}

    def add_hint(self, trajectory_id: str, opening: Sequence[int], tokens: Sequence[int]) -> None:
        """Insert the tokens behind the opening in all prompts of an episode."""
        self._hints[trajectory_id] = _Hint(tuple(opening), tuple(tokens))

    def drop_hint(self, trajectory_id: str) -> None:
        """Leave the prompts of an episode as they are."""
        self._hints.pop(trajectory_id, None)

    async def generate(self, request: GenerationRequest) -> Generation:
        """Sample one turn; without the hint where the context has no room for it."""
        hint = self._hints.get(request.key.trajectory_id)
        if hint is not None:
            if request.seed is not None:
                # With the random numbers of the first attempt, the new one would mostly repeat it.
                request = replace(request, seed=other_draw(request.seed) % 2**31)
            place, room = len(hint.opening), self._context - len(request.token_ids) - len(hint.tokens)
            if request.token_ids[:place] == hint.opening and room >= request.max_tokens:
                hinted = (*hint.opening, *hint.tokens, *request.token_ids[place:])
                request = replace(request, token_ids=hinted)
        return await self._policy.generate(request)


class ReflectivePlayer(EpisodePlayer):
    """Plays episodes, and those that were not solved once more after a reflection."""

    def __init__(
        self,
        client: AsyncSandboxClient,
        policy: Policy,
        chat: ChatTokenizer,
        config: RolloutConfig,
        service: SandboxServiceConfig,
        watch: ProgressMonitor | None,
        reflection: ReflectionConfig,
        folder: Path,
    ) -> None:
        """Reflections are added to ``folder/reflections.jsonl``."""
        super().__init__(client, policy, chat, config, service, watch)
        self._hinted = HintedPolicy(policy, self.context_tokens)
        self.policy = self._hinted
        self._reflection = reflection
        self._file = folder / REFLECTIONS

    async def play_episode(self, spec: GroupSpec, member: int, sampling: SamplingConfig) -> Trajectory:
        """Play one episode; return the better one of two attempts where the first was not solved."""
        if spec.index < 0:  # held out
            return await self.play_attempt(spec, member, sampling)
        turn, create_s = self._reflection.fork_turn, self.service.create_timeout_s
        forks = TurnForks(turn, self.instances, create_s) if turn is not None else None
        try:
            first = await self.play_attempt(spec, member, sampling, forks=forks)
            return await self._after_reflection(first, spec, member, sampling, forks)
        finally:
            if forks is not None:
                forks.close()

    async def _after_reflection(
        self,
        first: Trajectory,
        spec: GroupSpec,
        member: int,
        sampling: SamplingConfig,
        forks: TurnForks | None,
    ) -> Trajectory:
        """Return the better one of a first attempt and another after a reflection, if it was not solved."""
        if not first.scored or first.success or not first.turns:
            return first
        place = _behind_task(first, self.chat)
        if place is None:
            return self._skipped(first, "the chat template shows the task in other words")
        try:
            written = await self._reflect(first, sampling)
        except (EngineError, Stalled) as error:
            return self._skipped(first, f"the engine failed: {error}")
        if written is None:
            return self._skipped(first, "the attempt does not fit the context together with a reflection")
        thought, text = written
        if not text:
            return self._skipped(first, "the model wrote nothing" if thought is None else _ONLY_THOUGHT)
        hint = self.chat.content_tokens(_HINT + text)
        opening = first.segments[0].token_ids[:place]
        start = forks.take_fork() if forks is not None else None
        self._hinted.add_hint(first.id, opening, hint)
        try:
            second = await self.play_attempt(spec, member, sampling, start=start)
        finally:
            self._hinted.drop_hint(first.id)
        begun: dict[str, object] = {"fork_turn": None if start is None else len(start.turns)}
        if forks is not None and forks.problem:
            begun["not_forked"] = forks.problem
        self._keep(first, second, text, begun)
        return second if _is_better(second, first) else first

    async def _reflect(self, failed: Trajectory, sampling: SamplingConfig) -> tuple[str | None, str] | None:
        """Return the model's thought, if it had one, and its reflection on a failed attempt.

        None where the attempt does not fit.
        """
        settings = self._reflection
        transcript = "\n\n".join(f"[{line.role}]\n{line.content}" for line in failed.lines)
        asked = _ASK.format(transcript=transcript, instruction=settings.instruction)
        prompt = tuple(self.chat.opening([Message(role="user", content=asked)]))
        if len(prompt) + settings.max_tokens > self.context_tokens:
            return None
        limit_s = self.config.generate_timeout_s
        request = GenerationRequest(
            key=EpisodeKey(f"{failed.id}~reflection", failed.task, failed.seed),
            token_ids=prompt,
            max_tokens=settings.max_tokens,
            sampling=Sampling(sampling.temperature, sampling.top_p, sampling.top_k, self.chat.stop_ids),
            seed=failed.seed % 2**31,
            limit_s=limit_s,
        )
        text = self.chat.said((await self.policy.generate(request)).token_ids)
        thought, said = thought_before(self.chat.parse(text, prompt=prompt, calls=False).content or "")
        return thought, said.strip()

    def _keep(self, first: Trajectory, second: Trajectory, text: str, begun: Mapping[str, object]) -> None:
        row = {
            "id": first.id,
            "task_id": first.task.task_id,
            "reflection": text,
            "before": first.score,
            "after": second.score,
            "mended": second.scored and second.success is True,
            **begun,
        }
        self._append(row)

    def _skipped(self, first: Trajectory, reason: str) -> Trajectory:
        """Put on record why an attempt is not played again, and return it: a reflection is no part of it."""
        self._append({"id": first.id, "task_id": first.task.task_id, "skipped": reason})
        return first

    def _append(self, row: Mapping[str, object]) -> None:
        cut_torn_line(self._file)
        with self._file.open("a", encoding="utf-8") as lines:
            lines.write(json.dumps(row, ensure_ascii=False) + "\n")


def _is_better(second: Trajectory, first: Trajectory) -> bool:
    if not second.scored or second.score is None or first.score is None:
        return False
    return second.success is True or second.score > first.score


def _behind_task(failed: Trajectory, chat: ChatTokenizer) -> int | None:
    """Return the number of tokens up to the end of the last message before the first turn; None where the
    chat template shows it in other words.
    """
    opening = failed.segments[0].token_ids[: failed.segments[0].turns[0].start]
    before = []
    for line in failed.lines:
        if line.role == "assistant":
            break
        before.append(line.content.strip())
    text = chat.decode(opening)
    found = text.rfind(before[-1]) if before and before[-1] else -1
    if found < 0:
        return None
    rest = len(text) - found - len(before[-1])
    place = len(opening)
    while place > 0 and len(chat.decode(opening[place:])) < rest:
        place -= 1
    return place
