"""Evaluate a policy without weights of ours: random, reference, or a model behind an endpoint.

``sandbox-service run`` plays it through the service's API, on the same tasks as an evaluation of a model and
with the same limit of turns; the prompts are the environment's own.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp
from typing import TYPE_CHECKING

from trainer.config import TaskSource
from trainer.config.counterpart import ModelServerCounterpart
from trainer.errors import ConfigError, DataError, ServiceUnavailable, Stalled
from trainer.evaluate.baseline_episodes import played_all, read_baseline
from trainer.evaluate.results import EvaluationResult
from trainer.tasks.create_params import create_params

from .service import sandbox_service, service_command

if TYPE_CHECKING:
    from trainer.config import RunConfig
    from trainer.evaluate.results import TaskOutcome

_POLICIES = ("random", "reference", "empty")
_MODEL = "openai:"
_WRONG_USAGE = 2
_SOME_FAILED = 1
_LAST_LINES = 5


def evaluate_baseline(config: RunConfig, policy: str) -> EvaluationResult:
    """Return the evaluation of a policy on the held-out tasks.

    Args:
        config: the run, for its service, tasks, limits and sampling.
        policy: a policy of ``sandbox-service run``: ``random``, ``reference``, ``empty`` or
            ``openai:MODEL@URL``.

    Raises:
        ConfigError: the policy is unknown, or its server refuses.
        ServiceUnavailable: the service cannot be reached.
        DataError: nothing was played.
        Stalled: ``evaluation.timeout_s`` has passed.
    """
    _check_policy(policy)
    began = time.monotonic()
    sources = _held_out(config)
    tasks: list[TaskOutcome] = []
    with TemporaryDirectory(prefix="baseline-") as folder:
        files = Path(folder)
        with sandbox_service(config.service, config.environments, files) as url:
            for source in sources:
                left = config.evaluation.limit
                for split in source.held_out:
                    if left == 0:
                        break
                    output = Path(mkdtemp(dir=files)) / "episodes.jsonl"
                    _play(config, policy, source, split, url, output, left, began)
                    played = read_baseline(output, source.environment, split, config.reward)
                    left = None if left is None else left - len(played)
                    tasks += [replace(task, source=source.name) for task in played]
    if not tasks:
        raise DataError(f"the policy {policy} played no episode")
    return EvaluationResult(
        step=0,
        when="alone",
        split="+".join(dict.fromkeys(task.split for task in tasks)),
        tasks=tuple(tasks),
        environment="+".join(dict.fromkeys(source.environment for source in sources)),
        seconds=time.monotonic() - began,
        policy=policy,
    )


def _check_policy(policy: str) -> None:
    """Raise ConfigError for a name that no policy has, before a service is started for it."""
    if policy not in _POLICIES and not policy.startswith(_MODEL):
        raise ConfigError(f"unknown policy {policy!r}; choose {', '.join(_POLICIES)} or {_MODEL}MODEL@URL")


def _held_out(config: RunConfig) -> list[TaskSource]:
    """Return the held-out splits of each source, or environment, with the parameters of its instances."""
    tasks, held = config.tasks, config.evaluation
    if tasks.sources:
        named = [source.model_copy(update={"name": source.key}) for source in tasks.sources]
    else:
        splits = held.splits_by_environment(tasks.environment)
        named = [TaskSource(environment=name, held_out=splits[name]) for name in splits]
    return [
        source.model_copy(update={"params": create_params(config.rollout, tasks, source.key, held.params)})
        for source in named
    ]


def _play(
    config: RunConfig,
    policy: str,
    source: TaskSource,
    split: str,
    url: str,
    output: Path,
    limit: int | None,
    began: float,
) -> None:
    evaluation, rollout = config.evaluation, config.rollout
    played = f"{source.environment}/{split}"
    words = [
        *("run", "--env", source.environment, "--split", split, "--policy", policy, "--server", url),
        *("--seed", str(config.seed), "--repeat", str(evaluation.episodes)),
        *("--concurrency", str(rollout.concurrency), "--max-steps", str(rollout.max_turns)),
        *("--output", str(output), "--json"),
        *(("--params", json.dumps(source.params)) if source.params else ()),
        *(("--limit", str(limit)) if limit is not None else ()),
    ]
    if policy.startswith(_MODEL):
        words += ["--temperature", str(evaluation.temperature)]
        words += ["--max-tokens", str(rollout.sampling.max_turn_tokens)]
        words += ["--timeout", str(rollout.generate_timeout_s)]
    counterpart = rollout.counterpart
    keys = {"SANDBOX_API_KEY": config.service.api_key_variable}
    if isinstance(counterpart, ModelServerCounterpart):
        words += ["--counterpart", f"{counterpart.model}@{counterpart.base_url}"]
        keys["COUNTERPART_API_KEY"] = counterpart.api_key_variable
    elif counterpart is not None and not evaluation.params:
        raise ConfigError(
            "the run's counterpart is its own policy, which a baseline does not have: choose one of the "
            "environment by evaluation.params, such as opponent='random'"
        )
    variables = {
        **os.environ,
        **{name: os.environ[wanted] for name, wanted in keys.items() if wanted in os.environ},
    }
    left_s = max(1.0, evaluation.timeout_s - (time.monotonic() - began))
    try:
        done = subprocess.run(
            [*service_command(), *words],
            env=variables,
            capture_output=True,
            text=True,
            timeout=left_s,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise Stalled(f"the policy {policy} did not play {played} in {left_s:g} s") from error
    # Some failed episodes, which the file has with their class, also end the command with 1.
    if done.returncode == 0 or (done.returncode == _SOME_FAILED and played_all(done.stdout)):
        return
    said = " ".join(done.stderr.strip().splitlines()[-_LAST_LINES:])
    kind = ConfigError if done.returncode == _WRONG_USAGE else ServiceUnavailable
    raise kind(f"sandbox-service run could not play {policy} on {played}: {said}")
