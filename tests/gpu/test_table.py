"""The table of a GPU machine, made on a CPU with a tiny model."""

import json

import pytest
import torch

from tests.gpu.table import SETTINGS, Sizes, main, random_batch
from tests.harness.separate_packages import need_torchao


@pytest.fixture(autouse=True)
def one_thread():
    """Small tensors are done soonest by one thread."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def test_each_setting_has_a_row_of_figures(tmp_path, capsys):
    need_torchao()
    file = tmp_path / "table.json"
    assert main(["--device", "cpu", "--tiny", "--updates", "2", "-o", str(file)]) == 0
    table = json.loads(file.read_text())
    assert json.loads(capsys.readouterr().out) == table
    rows = {row["setting"]: row for row in table["rows"]}
    assert list(rows) == list(SETTINGS)
    for row in rows.values():
        assert row["tokens_per_s"] > 0
        assert row["mfu"] > 0
        assert len(row["seconds"]) == 2
        assert row["peak_bytes"] is None  # which CPUs do not count
    computed = {name: row["computed_bytes"] for name, row in rows.items()}
    assert computed["LoRA, packed, checkpointing"] < computed["LoRA, packed"]
    assert computed["LoRA, packed"] < computed["all weights, packed"]
    again = "all weights, packed, checkpointing"
    assert computed[f"{again}, moments in 8 bits"] < computed[again]
    assert computed[f"{again}, moments in host memory"] <= computed[again]


def test_a_setting_without_room_is_a_row_that_says_so(capsys, monkeypatch):
    def full(*_, **__):
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB\nand more")

    monkeypatch.setattr("tests.gpu.table.Learner", full)
    assert main(["--device", "cpu", "--tiny"]) == 1
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert {row["error"] for row in rows} == {"CUDA out of memory. Tried to allocate 2 GiB"}


def test_an_engine_that_does_not_start_costs_no_figures_of_the_learner(capsys, monkeypatch):
    def failing(*_, **__):
        raise RuntimeError("Engine core initialization failed.\nand more")

    monkeypatch.setattr("tests.harness.local_engine.LocalEngine", failing)
    words = ["--device", "cpu", "--tiny", "--updates", "1", "--settings", "LoRA, padded", "--engine"]
    assert main(words) == 0
    (row,) = json.loads(capsys.readouterr().out)["rows"]
    assert row["tokens_per_s"] > 0
    assert row["engine_error"] == "RuntimeError: Engine core initialization failed."


def test_batches_are_as_large_as_asked_for():
    batch = random_batch(0, Sizes(rows=16, longest=64, micro_batch_tokens=256, updates=1), 100)
    assert len(batch.samples) == 16
    assert all(32 <= len(sample) <= 64 for sample in batch.samples)
    assert all(sample.mask_T.sum() == len(sample) - len(sample) // 4 for sample in batch.samples)
