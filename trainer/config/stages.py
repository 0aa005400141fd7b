"""Settings of a run's stages, of the warm start before them, and of evaluation."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, TypeAlias

from pydantic import Field, JsonValue, model_validator

from sandbox_settings import Branch, Count, InputFile, NonNegative, Positive, Seconds
from trainer.types import Objective

from .learner import OptimizerConfig
from .preferences import DpoLoss, PreferenceLossConfig
from .recorded import RecordedFiles
from .selection import PairsConfig, SelectionConfig
from .tasks import SplitNames, each_once


class WarmStartConfig(Branch):
    """Supervised fine-tuning on demonstrations that are played in the sandbox."""

    demonstrations: InputFile
    """JSONL of ``{"task_id": ..., "messages": [assistant messages]}``, as ``sandbox-service envs references``
    and ``sandbox-trainer demonstrations`` write it."""
    limit: Positive | None = None
    """Use only this many demonstrations."""
    steps: Positive = 200
    """Steps of the fine-tuning."""
    batch: Positive = 32
    """Demonstrations per step."""
    optimizer: OptimizerConfig = OptimizerConfig(learning_rate=1e-5, schedule="cosine", warmup_steps=20)
    keep_failures: bool = False
    """Also fine-tune on demonstrations that did not solve their task."""
    params: dict[str, JsonValue] = {}
    """Parameters of the demonstrations' create requests, over those of ``rollout.params`` and of their
    source, such as the opponent that the demonstrations beat."""
    concurrency: Positive = 64
    """Concurrent demonstrations."""
    timeout_s: Seconds = 14_400.0
    """Time limit for playing all demonstrations; ``rollout.stall_timeout_s`` ends it sooner without
    progress.
    """


class EvaluationConfig(Branch):
    """Evaluation on held-out tasks."""

    splits: SplitNames = ()
    """Splits of held-out tasks; without any there is no evaluation. A split of another environment than
    ``tasks.environment`` is written ``ENVIRONMENT/SPLIT``.
    """
    limit: Positive | None = None
    """Use only this many tasks of each environment, divided equally among its splits; what a short split
    leaves goes to the others.
    """
    episodes: Positive = 1
    """Episodes per task."""
    params: dict[str, JsonValue] = {}
    """Parameters of the create requests of held-out tasks, over those of ``rollout.params`` and of their
    source, such as an opponent that stays the same."""
    pass_at: tuple[Positive, ...] = (1,)
    """Values of k for pass@k; none may exceed ``episodes``."""
    temperature: NonNegative = 1.0
    """Sampling temperature; 0 is greedy."""
    every: Count = 0
    """Steps between evaluations; 0: only before and after training."""
    timeout_s: Seconds = 14_400.0
    """Time limit of one evaluation; ``rollout.stall_timeout_s`` ends it sooner without progress."""

    @model_validator(mode="after")
    def _plays_enough_episodes(self) -> EvaluationConfig:
        most = max(self.pass_at, default=1)
        if most > self.episodes:
            raise ValueError(
                f"pass@{most} needs at least {most} episodes of a task, and episodes is {self.episodes}: set "
                f"evaluation.episodes={most}, or leave {most} out of pass_at"
            )
        return self

    def splits_by_environment(self, default: str) -> dict[str, tuple[str, ...]]:
        """Return the splits of each environment; those that name none belong to ``default``.

        Raises ValueError for one that is there twice, with and without its environment.
        """
        splits: dict[str, tuple[str, ...]] = {}
        for written in self.splits:
            environment, mark, split = written.partition("/")
            name, split = (environment, split) if mark else (default, written)
            splits[name] = (*splits.get(name, ()), split)
        for listed in splits.values():
            each_once(listed)
        return splits


class BaseStageConfig(Branch):
    """A stage of a run."""

    objective: ClassVar[Objective]

    name: str = Field(default="", pattern=r"^([A-Za-z0-9][A-Za-z0-9_-]{0,63})?$")
    """Name of the stage in messages and files; its kind by default."""

    @property
    def known_steps(self) -> int:
        """Updates of the stage. Raises ValueError while ``epochs`` have not been counted in the data."""
        raise NotImplementedError

    @property
    def needs_reference(self) -> bool:
        """Whether the loss of the stage compares with the model at its start."""
        return False


class OfflineStageConfig(BaseStageConfig):
    """A stage that learns from recorded data."""

    data: RecordedFiles
    """Files of recorded episodes, preferences or labelled completions."""
    steps: Positive | None = None
    """Updates of the stage; set these or ``epochs``."""
    epochs: Annotated[float, Field(gt=0)] | None = None
    """Passes over the rows that are not held out, in place of ``steps``. Rows that ``overlong`` leaves out
    are counted too, because lengths are not known yet; the remaining rows are then trained on more often.
    """
    batch: Positive = 32
    """Rows of a step: episodes, pairs of completions, or labelled completions."""
    overlong: Literal["refuse", "drop", "truncate"] = "refuse"
    """Treatment of rows longer than the model's context. refuse: an error that names them. drop: leave them
    out. truncate: cut them after the last turn that fits; rows in which no turn fits, and pairs whose two
    sides are the same after the cut, are left out.
    """
    timeout_s: Seconds = 3600.0
    """Time limit for reading and tokenizing the data."""

    @property
    def known_steps(self) -> int:
        """Updates of the stage. Raises ValueError while ``epochs`` have not been counted in the data."""
        if self.steps is None:
            raise ValueError(f"the steps of stage {self.name} have not been counted in its data yet")
        return self.steps

    @model_validator(mode="after")
    def _ends(self) -> OfflineStageConfig:
        if self.steps is None and self.epochs is None:
            raise ValueError("set steps or epochs: the stage has no end")
        return self


class SftStageConfig(OfflineStageConfig):
    """Supervised fine-tuning on the assistant's tokens of recorded episodes."""

    objective: ClassVar[Objective] = Objective.SFT

    kind: Literal["sft"] = "sft"
    select: SelectionConfig | None = None
    """Selection and weights of the episodes, as of ``data select``; all of them as they are by default."""
    optimizer: OptimizerConfig = OptimizerConfig(learning_rate=1e-5, schedule="cosine", warmup_steps=20)


class PairedStageConfig(OfflineStageConfig):
    """A stage that learns from pairs of completions, which may be made of recorded episodes."""

    pairs: PairsConfig | None = None
    """Rule by which pairs are made of recorded episodes, as of ``data pairs``; the data has pairs by default.
    """


class PreferencesStageConfig(PairedStageConfig):
    """Learning from preferred and rejected completions."""

    objective: ClassVar[Objective] = Objective.PREFERENCES

    kind: Literal["preferences"] = "preferences"
    loss: PreferenceLossConfig = DpoLoss()
    desirable_score: float | None = None
    """Score from which ``kto`` takes a recorded episode as desirable; by default those that succeeded are.

    """
    optimizer: OptimizerConfig = OptimizerConfig(learning_rate=1e-6, schedule="linear", warmup_steps=10)

    @model_validator(mode="after")
    def _compares_pairs(self) -> PreferencesStageConfig:
        if self.pairs is not None and self.loss.kind == "kto":
            raise ValueError(
                "kto labels each episode by itself; in pairs an episode may be on both sides: leave pairs "
                "out, and set desirable_score if success is not the label"
            )
        return self

    @property
    def needs_reference(self) -> bool:
        """Whether the loss of the stage compares with the model at its start."""
        return self.loss.kind != "orpo"


class ScoringStageConfig(OfflineStageConfig):
    """Training of a reward model: the model as it is, with a head in place of its output layer. Later stages
    go on with the model as it was before.
    """

    objective: ClassVar[Objective] = Objective.SCORES

    held_out: Annotated[float, Field(ge=0, lt=1)] = 0.1
    """Share of the prompts or tasks whose rows measure the model and are not trained on."""
    measure_every: Positive = 10
    """Steps between measurements on them."""
    optimizer: OptimizerConfig = OptimizerConfig(learning_rate=1e-5, schedule="cosine", warmup_steps=10)

    @property
    def outputs(self) -> int:
        """Outputs of the head."""
        return 1

    @property
    def needs_reference(self) -> bool:
        """A copy of the model at the start of the stage is kept, to go on with it."""
        return True


class RewardModelStageConfig(PairedStageConfig, ScoringStageConfig):
    """Training of a reward model of whole episodes on pairs of completions."""

    kind: Literal["reward_model"] = "reward_model"
    margins: bool = False
    """Have scores differ by at least the margins that the data has (Touvron et al. 2023)."""
    centering: NonNegative = 0.0
    """Coefficient of the mean square of the sum of a pair's scores, which keeps them near 0."""


class ProcessRewardModelStageConfig(ScoringStageConfig):
    """Training of a process reward model on recorded episodes with labelled steps."""

    kind: Literal["process_reward_model"] = "process_reward_model"
    dimensions: Annotated[tuple[str, ...], Field(min_length=1)] = ("correctness",)
    """Dimensions of the labels that the model learns, one output each."""

    @property
    def outputs(self) -> int:
        """Outputs of the head, one a dimension."""
        return len(self.dimensions)


class RlStageConfig(BaseStageConfig):
    """Reinforcement learning on episodes that are played in sandboxes, by the run's ``algorithm``."""

    objective: ClassVar[Objective] = Objective.POLICY

    kind: Literal["rl"] = "rl"
    steps: Positive
    """Updates of the stage."""
    optimizer: OptimizerConfig | None = None
    """The optimizer; ``learner.optimizer`` by default."""

    @property
    def known_steps(self) -> int:
        """Updates of the stage."""
        return self.steps


StageConfig: TypeAlias = Annotated[
    SftStageConfig
    | PreferencesStageConfig
    | RewardModelStageConfig
    | ProcessRewardModelStageConfig
    | RlStageConfig,
    Field(discriminator="kind"),
]


def named(stages: tuple[StageConfig, ...]) -> tuple[StageConfig, ...]:
    """Return the stages with names. Raises ValueError for two of one name, and for RL before the end."""
    found: list[StageConfig] = []
    for stage in stages:
        name = stage.name or stage.kind
        if name in {each.name for each in found} | {"warm_start"}:
            raise ValueError(f"two stages are named {name}; set name of each")
        if found and isinstance(found[-1], RlStageConfig):
            raise ValueError(
                f"stage {name} comes after the one of kind rl, which has to be the last: its engines and "
                "journal belong to the end of a run; start another run from its model"
            )
        found.append(stage.model_copy(update={"name": name}))
    return tuple(found)
