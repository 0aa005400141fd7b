"""vLLM and transformers load an export, and both find the learner's probabilities."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest
import torch

pytest.importorskip("vllm", reason="vLLM is not installed")

from transformers import AutoModelForCausalLM

from tests.harness.learning import run_config, small_batch, small_model
from tests.harness.mixture import small_mixture
from trainer.update.learner import Learner

pytestmark = [pytest.mark.vllm, pytest.mark.slow, pytest.mark.timeout(300)]

SEQUENCE = [3, 17, 40, 9, 22, 51, 8, 30]
_SCORE = """
import json, sys
from vllm import LLM, SamplingParams
engine = LLM(
    sys.argv[1], skip_tokenizer_init=True, enforce_eager=True, dtype="float32", max_model_len=64,
    kv_cache_memory_bytes=16 << 20, disable_log_stats=True,
)
asked = SamplingParams(max_tokens=1, prompt_logprobs=1, detokenize=False)
(answer,) = engine.generate([{"prompt_token_ids": json.loads(sys.argv[2])}], asked, use_tqdm=False)
found = [
    each[token].logprob for each, token in zip(answer.prompt_logprobs[1:], answer.prompt_token_ids[1:])
]
print(json.dumps(found))
"""
ENVIRONMENT = {
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_LOGGING_LEVEL": "ERROR",
    "HF_HUB_OFFLINE": "1",
    "OMP_NUM_THREADS": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
}


def by_vllm(folder, environment):
    done = subprocess.run(
        [sys.executable, "-c", _SCORE, str(folder), json.dumps(SEQUENCE)],
        capture_output=True,
        text=True,
        timeout=240,
        env=environment,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


def by_transformers(folder):
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    with torch.no_grad():
        logp = model(input_ids=torch.tensor([SEQUENCE])).logits[0].log_softmax(-1)
    return [float(logp[at, token]) for at, token in enumerate(SEQUENCE[1:])]


@pytest.mark.parametrize(
    ("make", "lora"),
    [(small_model, None), (small_model, {"rank": 4}), (small_mixture, None)],
    ids=["full", "lora", "experts"],
)
def test_others_load_what_was_learned(make, lora, tmp_path, monkeypatch):
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    import os

    folder = make(tmp_path / "model", hidden=128)
    learner = Learner(folder, run_config(learner={"lora": lora}).learner_settings, "cpu")
    learner.begin_stage(learner.settings.learner.optimizer, 2)
    before = learner.probe([tuple(SEQUENCE)])[0][1:]
    learner.update(small_batch())
    learner.export(tmp_path / "out")
    expected = learner.probe([tuple(SEQUENCE)])[0][1:]
    assert np.abs(expected - before).max() > 1e-3
    assert by_transformers(tmp_path / "out") == pytest.approx(expected.tolist(), abs=5e-5)
    assert by_vllm(tmp_path / "out", dict(os.environ)) == pytest.approx(expected.tolist(), abs=1e-4)
