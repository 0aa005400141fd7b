"""Settings of advantages, losses and KL; each variant is a model of its own with a ``kind``."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import AfterValidator, Discriminator, Field, JsonValue, Tag, field_validator, model_validator

from sandbox_plugins import PluginGroup
from sandbox_settings import Branch, NonNegative, Positive, Share

from .constraint import ConstraintConfig
from .distillation import DistillationConfig, ModelTeacher, ServerTeacher
from .plugins import PLUGIN, REFERENCE, installed, kind_or_plugin

ADVANTAGES = ("gae", "grpo", "dr_grpo", "rloo", "reinforce_pp", "return_to_go")
LOSSES = ("ppo", "gspo", "cispo")


class Gae(Branch):
    """Generalized advantage estimation (Schulman et al. 2016), over tokens or over turns."""

    kind: Literal["gae"] = "gae"
    level: Literal["token", "turn"] = "token"
    """A step is a token, or a whole turn whose tokens share its advantage."""
    gamma: Share = 1.0
    """Discount of a step."""
    lam: Share = 0.95
    """Weight of longer estimates: 0 uses the critic's next value only, 1 the rewards to the end."""
    whiten: bool = True
    """Normalize to zero mean and unit deviation over the batch's tokens."""
    bootstrap: bool = False
    """Bootstrap the value of episodes that a limit cut off, although they are graded: for rewards that come
    step by step, without an outcome.
    """


class Grpo(Branch):
    """Reward minus the group's mean, over its deviation (Shao et al. 2024)."""

    kind: Literal["grpo"] = "grpo"
    epsilon: NonNegative = 1e-4
    """Added to the standard deviation."""


class DrGrpo(Branch):
    """Reward minus the group's mean, no division (Liu et al. 2025)."""

    kind: Literal["dr_grpo"] = "dr_grpo"


class Rloo(Branch):
    """Reward minus the mean of the others (Ahmadian et al. 2024)."""

    kind: Literal["rloo"] = "rloo"


class ReinforcePlusPlus(Branch):
    """Reward whitened over the batch (Hu et al. 2025)."""

    kind: Literal["reinforce_pp"] = "reinforce_pp"
    group_baseline: bool = False
    """Subtract the group's mean return first, turn by turn."""


class ReturnToGo(Branch):
    """Discounted rewards from each turn on, minus a baseline."""

    kind: Literal["return_to_go"] = "return_to_go"
    gamma: Share = 1.0
    """Discount of a turn."""
    baseline: Literal["turn", "group", "batch", "none"] = "turn"
    """turn: the mean return of the group's other episodes from the same turn on. group, batch: the mean
    return of whole episodes, the same for every turn.
    """


class PluginAdvantage(Branch):
    """A function of an installed package, or ``module:function`` (docs/plugins.md)."""

    kind: Annotated[str, AfterValidator(installed(PluginGroup.ADVANTAGES, ADVANTAGES))] = REFERENCE
    options: dict[str, JsonValue] = {}
    """Keyword arguments of the function."""
    compares_groups: bool = True
    """Advantages are relative to the episodes of a group, so that a group of equal rewards has none."""


AdvantageConfig: TypeAlias = Annotated[
    Annotated[Gae, Tag("gae")]
    | Annotated[Grpo, Tag("grpo")]
    | Annotated[DrGrpo, Tag("dr_grpo")]
    | Annotated[Rloo, Tag("rloo")]
    | Annotated[ReinforcePlusPlus, Tag("reinforce_pp")]
    | Annotated[ReturnToGo, Tag("return_to_go")]
    | Annotated[PluginAdvantage, Tag(PLUGIN)],
    Discriminator(kind_or_plugin(ADVANTAGES)),
]


class PpoLoss(Branch):
    """Clipped surrogate (Schulman et al. 2017), asymmetric (Yu et al. 2025), dual clip (Ye et al. 2020)."""

    kind: Literal["ppo"] = "ppo"
    clip_low: NonNegative = 0.2
    """Lower bound of the ratio is 1 - this."""
    clip_high: NonNegative = 0.28
    """Upper bound of the ratio is 1 + this."""
    dual_clip: Annotated[float, Field(gt=1)] | None = None
    """Bound on the loss of bad actions that have become likelier; about 3 is usual."""


class GspoLoss(Branch):
    """Clips the length-normalized ratio of whole sequences (Zheng et al. 2025)."""

    kind: Literal["gspo"] = "gspo"
    clip_low: NonNegative = 3e-4
    """Lower bound of the ratio is 1 - this."""
    clip_high: NonNegative = 4e-4
    """Upper bound of the ratio is 1 + this."""


class CispoLoss(Branch):
    """REINFORCE with clipped, detached importance weights (MiniMax 2025)."""

    kind: Literal["cispo"] = "cispo"
    clip_low: Share | None = None
    """Lower bound is 1 - this; None: no lower bound."""
    clip_high: NonNegative = 5.0
    """Upper bound is 1 + this."""


class PluginLoss(Branch):
    """A function of an installed package, or ``module:function`` (docs/plugins.md)."""

    kind: Annotated[str, AfterValidator(installed(PluginGroup.LOSSES, LOSSES))] = REFERENCE
    options: dict[str, JsonValue] = {}
    """Keyword arguments of the function."""


LossConfig: TypeAlias = Annotated[
    Annotated[PpoLoss, Tag("ppo")]
    | Annotated[GspoLoss, Tag("gspo")]
    | Annotated[CispoLoss, Tag("cispo")]
    | Annotated[PluginLoss, Tag(PLUGIN)],
    Discriminator(kind_or_plugin(LOSSES)),
]


class KlConfig(Branch):
    """KL penalty to the reference model (estimators: Schulman 2020, http://joschu.net/blog/kl-approx.html)."""

    place: Literal["none", "reward", "loss"] = "none"
    """reward: subtracted from each token's reward. loss: a term of the loss. none: no penalty."""
    estimator: Literal["k1", "k2", "k3"] = "k3"
    """With ``place=reward`` the default is k1."""
    coefficient: NonNegative = 0.05
    """Weight of the penalty."""
    target: Annotated[float, Field(gt=0)] | None = None
    """Adapt the coefficient to keep the KL of a sequence at this value (Ziegler et al. 2019); None: fixed.

    """
    horizon: Positive = 10_000
    """Number of sequences over which the coefficient adapts."""

    @model_validator(mode="before")
    @classmethod
    def _usual_estimator(cls, given: object) -> object:
        if isinstance(given, dict) and given.get("place") == "reward":
            return {"estimator": "k1", **given}
        return given

    @model_validator(mode="after")
    def _teaches(self) -> KlConfig:
        if self.place == "loss" and self.estimator == "k1":
            raise ValueError(
                "k1 has a gradient of mean zero in the loss: use k2 or k3 there, or place=reward"
            )
        return self


class MismatchConfig(Branch):
    """Correction for different probabilities of the sampled tokens in engine and learner."""

    mode: Literal["off", "truncate", "mask"] = "truncate"
    """truncate: weights min(ratio, cap). mask: ratios outside of [floor, cap] have weight 0."""
    level: Literal["token", "sequence"] = "token"
    """token: a ratio for each token. sequence: the product over a sequence."""
    cap: Annotated[float, Field(ge=1)] = 2.0
    """Upper bound of the ratio."""
    floor: Share = 0.5
    """Lower bound of ``mask``."""


class ValueConfig(Branch):
    """The critic: a value head on the policy's last hidden states."""

    coefficient: NonNegative = 0.5
    """Weight of the critic's loss relative to the policy's."""
    clip: NonNegative | None = 0.2
    """Greatest change of a value in one batch; None: no clipping."""
    detach: bool = False
    """Stop the critic's gradient at the head."""
    learning_rate: Annotated[float, Field(gt=0)] | None = None
    """Learning rate of the head in stages of RL; the stage's by default. The head of a reward model learns at
    its stage's rate."""


class AlgorithmConfig(Branch):
    """The algorithm; the default is GRPO with asymmetric clipping."""

    advantage: AdvantageConfig = Grpo()
    loss: LossConfig = PpoLoss()
    aggregation: Literal["token", "sequence", "constant"] = "token"
    """Mean over all tokens (Yu et al. 2025), mean over sequences of their means (Shao et al. 2024), or sum
    over a constant length (Liu et al. 2025)."""
    constant_length: Positive = 1024
    """Constant of the aggregation ``constant``, in tokens."""
    entropy: float = 0.0
    """Coefficient of the entropy bonus."""
    kl: KlConfig = KlConfig()
    mismatch: MismatchConfig = MismatchConfig()
    value: ValueConfig = ValueConfig()
    """Used by ``gae`` only."""
    distillation: DistillationConfig | None = None
    """Learn from a teacher, at the tokens that the policy sampled."""
    constraints: tuple[ConstraintConfig, ...] = ()
    """Limits on mean costs of episodes."""
    by_source: Literal["none", "scale", "whiten"] = "none"
    """Normalize advantages over the batch's tokens of each of ``tasks.sources``. scale: divide by their root
    mean square. whiten: to zero mean and unit deviation.
    """
    drop_flat_groups: bool = True
    """Replace groups whose rewards are all equal, since they carry no signal."""
    most_dropped: NonNegative = 3.0
    """Limit of flat groups replaced per step, as a multiple of P; beyond it the step trains on the groups
    that it has.
    """
    overlong: Literal["keep", "mask"] = "keep"
    """Train on episodes that a limit of the trainer cut off, or mask them from the loss."""

    @field_validator("constraints")
    @classmethod
    def _are_told_apart(cls, given: tuple[ConstraintConfig, ...]) -> tuple[ConstraintConfig, ...]:
        costs = [each.cost for each in given]
        if twice := sorted({cost for cost in costs if costs.count(cost) > 1}):
            raise ValueError(f"the cost {twice[0]} has two constraints; leave one out")
        return given

    @property
    def compares_groups(self) -> bool:
        """Whether what is learned is relative to the episodes of one group, and to nothing else."""
        return self.distillation is None and self.advantage_compares_groups

    @property
    def advantage_compares_groups(self) -> bool:
        """Whether the task's advantages are relative to the episodes of one group."""
        match self.advantage:
            case Grpo() | DrGrpo() | Rloo():
                return True
            case ReinforcePlusPlus(group_baseline=compares) | PluginAdvantage(compares_groups=compares):
                return compares
            case ReturnToGo(baseline=baseline):
                return baseline in ("turn", "group")
        return False

    @property
    def needs_differences(self) -> bool:
        """Whether a group whose episodes all have the same rewards, turn by turn, gives no advantage.

        A KL in the reward and costs with multipliers, which only the learner knows, make rewards differ.
        """
        return self.compares_groups and not self.constraints and self.kl.place != "reward"

    @property
    def needs_values(self) -> bool:
        """Whether there is a critic."""
        return isinstance(self.advantage, Gae)

    @property
    def needs_reference(self) -> bool:
        """Whether there is a reference model."""
        return self.kl.place != "none"

    @property
    def uses_rewards(self) -> bool:
        """Whether rewards change what is learned."""
        return self.distillation is None or self.distillation.task_weight > 0

    @property
    def model_teacher(self) -> ModelTeacher | None:
        """The teacher that the learner's workers hold; None without one."""
        teacher = self.distillation.teacher if self.distillation is not None else None
        return teacher if isinstance(teacher, ModelTeacher) else None

    @property
    def distils_exactly(self) -> bool:
        """Whether a teacher's whole distributions are learned from, and not its log-probabilities."""
        return self.distillation is not None and self.distillation.estimate == "exact"

    @property
    def compares_policies(self) -> bool:
        """Whether what is learned depends on the policy's log-probabilities before the step.

        It does not where the policy learns from an exact KL to a teacher, and all advantages are 0.
        """
        return (
            not self.distils_exactly
            or self.uses_rewards
            or self.needs_reference
            or self.needs_values
            or isinstance(self.loss, PluginLoss)
        )

    @property
    def server_teacher(self) -> ServerTeacher | None:
        """The teacher on a server; None without one."""
        teacher = self.distillation.teacher if self.distillation is not None else None
        return teacher if isinstance(teacher, ServerTeacher) else None
