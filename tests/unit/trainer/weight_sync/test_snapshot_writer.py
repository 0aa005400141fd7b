import logging
import threading

import pytest
import safetensors.torch
import torch
from safetensors.torch import load_file, save_file

from trainer.errors import ConfigError, Stalled
from trainer.weight_sync import snapshot_writer
from trainer.weight_sync.snapshot_writer import SnapshotWriter
from trainer.weight_sync.snapshots import newest_snapshot
from trainer.weight_sync.weights import PIECE_BYTES, file_weights, piece_bytes


@pytest.fixture
def writer(tmp_path):
    return SnapshotWriter(tmp_path / "shared", tmp_path / "disk", timeout_s=5)


def test_a_snapshot_holds_the_weights_as_they_were_when_it_was_begun(writer, tmp_path):
    weights = {"one": torch.ones(3, 4), "two": torch.ones(2, dtype=torch.bfloat16)}
    for version in (1, 2):
        writer.begin_snapshot(version, weights.items())
        for tensor in weights.values():
            tensor += 1
        writer.await_snapshot()
        snapshot = newest_snapshot(tmp_path / "shared")
        assert snapshot.version == version
        for name, tensor in load_file(snapshot.path).items():
            assert torch.equal(tensor, torch.full_like(weights[name], version))


def test_the_next_snapshot_waits_until_the_one_before_is_complete(writer, tmp_path, monkeypatch):
    versions = []

    def slow(folder, spare, version, weights):
        for _, tensor in weights:
            versions.append((version, float(tensor)))

    monkeypatch.setattr(snapshot_writer, "file_weights", slow)
    for version in range(20):
        writer.begin_snapshot(version, [("one", torch.tensor(float(version)))])
    writer.await_snapshot()
    assert versions == [(version, float(version)) for version in range(20)]


def test_a_snapshot_without_room_ends_the_run_and_is_logged_when_it_was_the_last(writer, monkeypatch, caplog):
    def full(*_):
        raise ConfigError("no room")

    monkeypatch.setattr(snapshot_writer, "file_weights", full)
    with caplog.at_level(logging.WARNING):
        writer.begin_snapshot(1, [])
        with pytest.raises(ConfigError, match="no room"):
            writer.begin_snapshot(2, [])
    assert "the weight snapshot of version 1 was not written: no room" in caplog.text
    writer.close()


def test_a_snapshot_that_the_disk_does_not_take_is_an_error_of_the_system(tmp_path, monkeypatch):
    nowhere = tmp_path / "missing" / "file"
    monkeypatch.setattr(safetensors.torch, "save_file", lambda tensors, _: save_file(tensors, nowhere))
    with pytest.raises(OSError, match="could not be written"):
        file_weights(tmp_path, tmp_path, 1, [("one", torch.zeros(4))])


def test_a_snapshot_that_is_not_written_is_reported_at_the_deadline(tmp_path, monkeypatch, caplog):
    released = threading.Event()
    monkeypatch.setattr(snapshot_writer, "file_weights", lambda *_: released.wait(30))
    writer = SnapshotWriter(tmp_path, tmp_path, timeout_s=0.05)
    writer.begin_snapshot(1, [])
    with pytest.raises(Stalled, match=r"not written within 0\.05 s"):
        writer.await_snapshot()
    with caplog.at_level(logging.WARNING):
        writer.close()
    assert "a weight snapshot was not written within 0.05 s" in caplog.text
    released.set()


@pytest.mark.parametrize(
    ("total", "largest", "expected"),
    [
        pytest.param(4 << 20, 1 << 20, 4 << 20, id="a small model in one piece"),
        pytest.param(8 << 30, 300 << 20, 300 << 20, id="a piece for the largest tensor"),
        pytest.param(8 << 30, 1 << 20, PIECE_BYTES, id="pieces"),
    ],
)
def test_a_piece_of_the_weights_has_room_for_each_tensor(total, largest, expected):
    assert piece_bytes(total, largest) == expected
