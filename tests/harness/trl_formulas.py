"""TRL's own statements, run on our numbers: an independent reference of losses and advantages.

TRL keeps its formulas inside of methods. What is needed is cut out of the installed source and run alone, so
that neither a model nor TRL's many imports are needed. If a release moves the statements, finding them fails.
"""

from __future__ import annotations

import ast
import math
from collections import defaultdict
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional


@cache
def _trainer(name: str, folder: str = "trainer") -> ast.Module:
    spec = find_spec("trl")
    assert spec is not None
    assert spec.submodule_search_locations
    return ast.parse((Path(spec.submodule_search_locations[0]) / folder / name).read_text())


def _function(tree: ast.AST, name: str) -> ast.FunctionDef:
    (found,) = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name == name)
    return found


def _run(statements: list[ast.stmt], names: dict[str, Any]) -> dict[str, Any]:
    """Run the statements with these names, beside torch and TRL's helpers; gives all names afterwards."""
    helpers = _trainer("utils.py")
    wanted: list[ast.stmt] = [_function(helpers, name) for name in ("nanstd", "nanmin", "nanmax")]
    space: dict[str, Any] = {"torch": torch, "math": math, **names}
    exec(compile(ast.Module([*wanted, *statements], []), "trl", "exec"), space)
    return space


def _within(function: ast.FunctionDef, first: str, last: str) -> list[ast.stmt]:
    """Statements of one block, from the one that begins with ``first`` to the one that does with ``last``."""
    for node in ast.walk(function):
        block = getattr(node, "body", None)
        if not isinstance(block, list):
            continue
        texts = [ast.unparse(statement) for statement in block]
        starts = [index for index, text in enumerate(texts) if text.startswith(first)]
        ends = [index for index, text in enumerate(texts) if text.startswith(last)]
        if starts and ends:
            return block[starts[0] : ends[-1] + 1]
    raise LookupError(f"TRL has no statements from {first!r} to {last!r} in {function.name}")


class _Accelerator:
    num_processes = 1
    sync_gradients = True

    def gather(self, value: Tensor) -> Tensor:
        return value

    def reduce(self, value: Tensor, reduction: str) -> Tensor:
        return value


def trl_loss(
    logprobs: Tensor,
    old_logprobs: Tensor,
    advantages: Tensor,
    mask: Tensor,
    *,
    loss_type: str,
    level: str = "token",
    epsilon_low: float = 0.2,
    epsilon_high: float = 0.28,
    delta: float | None = None,
    beta: float = 0.0,
    ref_logprobs: Tensor | None = None,
    importance: Tensor | None = None,
    entropy: Tensor | None = None,
    entropy_coefficient: float = 0.0,
    longest: int = 1,
) -> Tensor:
    """The loss of ``GRPOTrainer`` on one micro-batch that is the whole batch."""
    entropies = torch.zeros_like(logprobs) if entropy is None else entropy
    trainer = SimpleNamespace(
        _get_per_token_logps_and_entropies=lambda *_, **__: (logprobs, entropies, None),
        _entropy_bonus_enabled=bool(entropy_coefficient),
        _metrics={"train": defaultdict(list)},
        accelerator=_Accelerator(),
        args=SimpleNamespace(use_bias_correction_kl=False, delta=delta, steps_per_generation=1),
        aux_loss_enabled=False,
        beta=beta,
        current_gradient_accumulation_steps=1,
        entropy_coef=entropy_coefficient,
        epsilon_high=epsilon_high,
        epsilon_low=epsilon_low,
        importance_sampling_level=level,
        loss_type=loss_type,
        max_completion_length=longest,
        model=SimpleNamespace(training=True),
        off_policy_mask_threshold=None,
        top_entropy_quantile=1.0,
        use_adaptive_entropy=False,
        use_vllm=importance is not None,
        vllm_importance_sampling_correction=True,
    )
    rows = len(logprobs)
    inputs = {
        "prompt_ids": torch.zeros(rows, 1, dtype=torch.long),
        "prompt_mask": torch.ones(rows, 1, dtype=torch.long),
        "completion_ids": torch.zeros_like(mask, dtype=torch.long),
        "completion_mask": mask.long(),
        "advantages": advantages,
        "old_per_token_logps": old_logprobs,
        "ref_per_token_logps": ref_logprobs,
        "importance_sampling_ratio": importance,
        "num_items_in_batch": mask.sum(),
    }
    method = _function(_trainer("grpo_trainer.py"), "_compute_loss")
    found = _run([method], {})["_compute_loss"](trainer, None, inputs)
    assert isinstance(found, Tensor)
    return found


def trl_importance(
    old_logprobs: Tensor,
    sampling_logprobs: Tensor,
    mask: Tensor,
    *,
    mode: str,
    least: float | None = None,
    most: float | None = None,
) -> Tensor:
    """Weights of ``vllm_importance_sampling_mode``: (B, T), or (B, 1) at the level of sequences."""
    method = _function(_trainer("grpo_trainer.py"), "_generate_and_score_completions")
    statements = _within(
        method, "mask = completion_mask if tool_mask", "if self.vllm_importance_sampling_mode in"
    )
    names = {
        "self": SimpleNamespace(
            vllm_importance_sampling_mode=mode,
            vllm_importance_sampling_clip_min=least,
            vllm_importance_sampling_clip_max=most,
        ),
        "completion_mask": mask.long(),
        "tool_mask": None,
        "old_per_token_logps": old_logprobs,
        "sampling_per_token_logps": sampling_logprobs,
    }
    found = _run(statements, names)["vllm_importance_sampling_ratio"]
    assert isinstance(found, Tensor)
    return found


def trl_grpo_advantages(rewards: Tensor, group_size: int, *, scale: str) -> Tensor:
    """Advantages of ``GRPOTrainer`` with ``scale_rewards``, for groups one after another."""
    method = _function(_trainer("grpo_trainer.py"), "_generate_and_score_completions")
    statements = _within(method, "if self.multi_objective_aggregation", "advantages = torch.nan_to_num")
    names = {
        "self": SimpleNamespace(
            multi_objective_aggregation="sum_then_normalize",
            reward_weights=torch.ones(1, dtype=rewards.dtype),
            scale_rewards=scale,
        ),
        "rewards_per_func": rewards[:, None],
        "unscorable_mask": torch.isnan(rewards),
        "num_generations": group_size,
        "device": rewards.device,
    }
    found = _run(statements, names)["advantages"]
    assert isinstance(found, Tensor)
    return found


def trl_rloo_advantages(rewards: Tensor, group_size: int) -> Tensor:
    """Advantages of ``RLOOTrainer`` for groups one after another; NaN marks what has no verdict."""
    method = _function(_trainer("rloo_trainer.py"), "_generate_and_score_completions")
    statements = _within(method, "grouped_rewards = rewards.view", "advantages = torch.nan_to_num")
    names = {
        "self": SimpleNamespace(normalize_advantages=False),
        "rewards": rewards,
        "num_generations": group_size,
    }
    found = _run(statements, names)["advantages"]
    assert isinstance(found, Tensor)
    return found


def trl_reward_loss(
    chosen: Tensor, rejected: Tensor, margins: Tensor | None = None, centering: float | None = None
) -> Tensor:
    """The loss of ``RewardTrainer`` on scores of pairs."""
    function = _function(_trainer("reward_trainer.py"), "compute_loss")
    names = {
        "nn": torch.nn,
        "self": SimpleNamespace(args=SimpleNamespace(center_rewards_coefficient=centering)),
        "inputs": {} if margins is None else {"margin": margins},
        "outputs": SimpleNamespace(logits=torch.cat([chosen, rejected])[:, None]),
    }
    loss = _run(_within(function, "rewards_chosen", "if self.args.center_rewards"), names)["loss"]
    assert isinstance(loss, Tensor)
    return loss


def trl_dpo_loss(
    logprobs: Tensor,
    reference: Tensor,
    mask: Tensor,
    *,
    loss_type: str,
    beta: float,
    label_smoothing: float = 0.0,
) -> Tensor:
    """The loss of ``DPOTrainer``: the first half of the rows are chosen, the second half rejected."""
    ratios = (logprobs - reference).sum(1)
    chosen, rejected = ratios.chunk(2)
    trainer = SimpleNamespace(
        beta=beta,
        loss_types=[loss_type],
        loss_weights=[1.0],
        label_smoothing=label_smoothing,
        use_weighting=False,
    )
    names = {
        "self": trainer,
        "F": functional,
        "device": torch.device("cpu"),
        "chosen_logratios": chosen,
        "rejected_logratios": rejected,
        "chosen_scores": chosen,
        "rejected_scores": rejected,
        "completion_mask": mask,
        **_halves("{}_logps", logprobs),
        **_halves("ref_{}_logps", reference),
    }
    function = _function(_trainer("dpo_trainer.py"), "_compute_loss")
    found = _run(_within(function, "delta_score =", "for loss_type, loss_weight"), names)
    return found["loss"]


def _halves(name: str, logprobs: Tensor) -> dict[str, Tensor]:
    chosen, rejected = logprobs.sum(1).chunk(2)
    return {name.format("chosen"): chosen, name.format("rejected"): rejected}


def trl_kto_loss(
    logprobs: Tensor,
    reference: Tensor,
    mismatched: Tensor,
    mismatched_reference: Tensor,
    labels: Tensor,
    *,
    beta: float,
    desirable_weight: float,
    undesirable_weight: float,
) -> tuple[Tensor, Tensor]:
    """The loss of ``KTOTrainer`` and its KL estimate."""
    trainer = SimpleNamespace(
        beta=beta,
        loss_type="kto",
        calculate_KL=True,
        desirable_weight=desirable_weight,
        undesirable_weight=undesirable_weight,
        accelerator=SimpleNamespace(gather_for_metrics=lambda value: value),
    )
    names = {
        "self": trainer,
        "F": functional,
        "chosen_logps": logprobs.sum(1)[labels],
        "rejected_logps": logprobs.sum(1)[~labels],
        "ref_chosen_logps": reference.sum(1)[labels],
        "ref_rejected_logps": reference.sum(1)[~labels],
        "KL_logps": mismatched.sum(1),
        "ref_KL_logps": mismatched_reference.sum(1),
    }
    function = _function(_trainer("kto_trainer.py"), "_compute_loss")
    block = _within(function, "if self.calculate_KL:\n    kl =", "losses = torch.cat")
    found = _run(block, names)
    return found["losses"].nanmean(), found["kl"]


def trl_orpo_loss(chosen: Tensor, rejected: Tensor, *, beta: float) -> Tensor:
    """The weighted log-sigmoid of the odds ratio of TRL's experimental ``ORPOTrainer``, for each pair."""
    spec = find_spec("trl")
    assert spec is not None
    assert spec.submodule_search_locations
    folder = Path(spec.submodule_search_locations[0]) / "experimental"
    orpo = ast.parse((folder / "orpo" / "orpo_trainer.py").read_text())
    function = _function(orpo, "odds_ratio_loss")
    names = {
        "self": SimpleNamespace(beta=beta, accelerator=SimpleNamespace(device="cpu")),
        "F": functional,
        "policy_chosen_logps": chosen,
        "policy_rejected_logps": rejected,
    }
    helper = _function(orpo, "log1mexp")
    return _run([helper, *_within(function, "policy_chosen_logps =", "losses =")], names)["losses"]


def trl_reverse_kl(logits: Tensor, teacher: Tensor) -> Tensor:
    """The loss of ``GKDTrainer`` with beta=1, by token and word."""
    formula = _function(_trainer("gkd_trainer.py", "experimental/gkd"), "generalized_jsd_loss")
    formula.decorator_list = []
    space = _run([formula], {"F": functional})
    found: Tensor = space["generalized_jsd_loss"](logits, teacher, beta=1, reduction="none")
    return found
