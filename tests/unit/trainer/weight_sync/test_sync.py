import tempfile
from concurrent.futures import Future

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from tests.fakes.rollout_engines import FakeHandle
from tests.harness.weight_sync_ranks import sync_by_two_ranks
from trainer.config import RunConfig
from trainer.errors import ConfigError, StaleWeights, Stalled
from trainer.weight_sync import snapshots
from trainer.weight_sync.shared_file import SharedFile
from trainer.weight_sync.snapshots import (
    WeightSnapshot,
    are_in_memory,
    clear_snapshots,
    newest_snapshot,
    note_snapshot,
    snapshot_folder,
)
from trainer.weight_sync.sync import WeightSync, make_weight_sync
from trainer.weight_sync.weights import file_weights

UPDATE = ["pause_generation", "begin_update", "update_weights", "finish_update", "resume_generation"]


class Owner:
    """Two weights, and log-probabilities of one half in nature's logarithm."""

    def __init__(self):
        self.embedding = torch.ones(4, 3)
        self.passes = 0

    def named_weights(self):
        self.passes += 1
        yield "model.embed_tokens.weight", self.embedding
        yield "model.norm.weight", torch.zeros(3)

    def probe(self, sequences):
        return [np.array([0.0] + [-0.5] * (len(sequence) - 1)) for sequence in sequences]

    def adapter(self, folder):
        if folder.is_dir():
            save_file({"lora_A.weight": torch.ones(2, 3)}, folder / "adapter_model.safetensors")


@pytest.fixture
def owner():
    return Owner()


@pytest.fixture
def run(tmp_path):
    return RunConfig.model_validate(
        {"root": tmp_path, "engine": {"device": "cpu"}, "sync": {"folder": tmp_path, "timeout_s": 5}}
    )


def verbs(handle):
    """Return the orders to the engine, without questions."""
    names = [verb if isinstance(verb, str) else verb[0] for verb in handle.verbs]
    return [
        name for name in names if name not in ("get_status", "sample_text", "score_sequences", "get_receipts")
    ]


def restarting_with(handles, version, run):
    for handle in handles:
        handle.synced = version
        handle.snapshots = snapshot_folder(run.folder, run.sync.folder)


def test_engines_stand_still_while_they_take_weights_and_are_asked_afterwards(run, owner):
    handles = [FakeHandle("a"), FakeHandle("b")]
    report = make_weight_sync(run.sync_settings, handles, owner, 0).report(3)
    for handle in handles:
        assert verbs(handle) == UPDATE
        assert ("pause_generation", "keep") in handle.verbs
        assert handle.verbs[-3:] == ["get_receipts", "get_status", "score_sequences"]
        assert handle.version == 3
    assert (report.version, report.agreement.difference, report.lost) == (3, 0.0, ())
    assert report.bytes > 0


def test_turns_are_aborted_where_the_run_says_so(run, owner):
    run = run.model_copy(update={"rollout": run.rollout.model_copy(update={"in_flight": "abort"})})
    handle = FakeHandle()
    make_weight_sync(run.sync_settings, [handle], owner, 0).sync_weights(1)
    assert ("pause_generation", "abort") in handle.verbs


@pytest.fixture
def sleeping(run):
    return run.model_copy(update={"engine": run.engine.model_copy(update={"sleep": True})})


def test_engines_that_sleep_wake_around_a_weight_sync_weights_before_it_and_cache_behind_it(sleeping, owner):
    handle = FakeHandle()
    weight_sync = make_weight_sync(sleeping.sync_settings, [handle], owner, 0)
    weight_sync.sleep_engines()
    weight_sync.sync_weights(1)
    said = [
        verb
        for verb in handle.verbs
        if verb[0] in ("enter_sleep", "wake_up") or verb in ("begin_update", "resume_generation")
    ]
    assert said == [
        ("enter_sleep", "keep"),
        ("wake_up", "weights"),
        "begin_update",
        ("wake_up", "kv_cache"),
        "resume_generation",
    ]


def test_engines_that_sleep_wake_with_the_weights_that_they_have_where_nothing_is_synced(sleeping, owner):
    handle = FakeHandle()
    make_weight_sync(sleeping.sync_settings, [handle], owner, 0).wake_engines()
    assert handle.verbs == [("wake_up", "weights"), ("wake_up", "kv_cache")]


def test_engines_keep_their_memory_unless_the_run_says_otherwise(run, owner):
    handle = FakeHandle()
    weight_sync = make_weight_sync(run.sync_settings, [handle], owner, 0)
    weight_sync.sleep_engines()
    weight_sync.wake_engines()
    assert handle.verbs == []


def test_the_file_names_the_tied_head_and_the_manifest_names_the_file(run, owner):
    make_weight_sync(run.sync_settings, [FakeHandle()], owner, 0).sync_weights(3)
    snapshot = newest_snapshot(snapshot_folder(run.folder, run.sync.folder))
    assert (snapshot.version, snapshot.kind) == (3, "weights")
    found = load_file(snapshot.path)
    assert set(found) == {"model.embed_tokens.weight", "model.norm.weight", "lm_head.weight"}
    assert torch.equal(found["lm_head.weight"], owner.embedding)


def test_a_head_of_its_own_stays_what_it_is(run, owner):
    owner.named_weights = lambda: iter(
        [("model.embed_tokens.weight", owner.embedding), ("lm_head.weight", torch.zeros(4, 3))]
    )
    make_weight_sync(run.sync_settings, [FakeHandle()], owner, 0).sync_weights(3)
    assert not load_file(newest_snapshot(snapshot_folder(run.folder, run.sync.folder)).path)[
        "lm_head.weight"
    ].any()


def test_weights_that_shared_memory_has_no_room_for_lie_on_the_runs_disk(tmp_path):
    shared, disk = tmp_path / "shared", tmp_path / "disk"
    weights = {"one": torch.ones(1 << 20)}
    free = {shared: 1 << 20, disk: 1 << 30}
    path, size = file_weights(shared, disk, 3, weights.items(), free.__getitem__)
    assert path.parent == disk
    assert newest_snapshot(shared) == WeightSnapshot(3, "weights", path)
    assert size > 4 << 20
    path, _ = file_weights(shared, disk, 4, weights.items(), lambda folder: 1 << 30)
    assert path.parent == shared
    assert len(list(disk.iterdir())) == 1


def test_weights_that_nobody_has_room_for_are_refused_before_anything_is_written(tmp_path):
    shared, disk = tmp_path / "shared", tmp_path / "disk"
    with pytest.raises(ConfigError, match=r"set sync\.folder"):
        file_weights(shared, disk, 3, [("one", torch.ones(1 << 20))], lambda folder: 1 << 20)
    assert not shared.exists()


def test_two_snapshots_lie_there_and_no_more(run, owner):
    weight_sync = make_weight_sync(run.sync_settings, [FakeHandle()], owner, 0)
    for version in range(5):
        weight_sync.sync_weights(version)
    names = sorted(
        path.name.split("-")[1] for path in snapshot_folder(run.folder, run.sync.folder).glob("weights-*")
    )
    assert names == ["3", "4"]


def test_other_ranks_gather_and_talk_to_nobody(run, owner):
    handle = FakeHandle()
    report = make_weight_sync(run.sync_settings, [handle], owner, 1).report(3)
    assert owner.passes == 1
    assert handle.verbs == []
    assert report.agreement is None
    assert newest_snapshot(snapshot_folder(run.folder, run.sync.folder)) is None


@pytest.mark.parametrize("check", [True, False], ids=["checked", "unchecked"])
def test_no_rank_returns_before_the_engines_have_the_weights(owner, tmp_path, check):
    assert sync_by_two_ranks(owner, tmp_path, check) == [True, True]


def test_an_engine_that_was_left_paused_is_asked_only_when_it_samples_again(run, owner):
    handle = FakeHandle(paused=True)
    report = make_weight_sync(run.sync_settings, [handle], owner, 0).report(1)
    assert report.agreement.difference == 0.0
    assert verbs(handle) == UPDATE


def test_an_engine_that_differs_is_named(run, owner):
    handles = [FakeHandle("good"), FakeHandle("bad", offset=0.01)]
    with pytest.raises(StaleWeights, match="bad"):
        make_weight_sync(run.sync_settings, handles, owner, 0).sync_weights(3)


def test_log_probabilities_that_are_no_numbers_do_not_pass(run, owner):
    with pytest.raises(StaleWeights):
        make_weight_sync(run.sync_settings, [FakeHandle(offset=float("nan"))], owner, 0).sync_weights(3)


@pytest.mark.parametrize("verb", UPDATE)
def test_an_engine_that_dies_on_the_way_holds_nobody_up_and_comes_back_with_the_weights(run, owner, verb):
    handles = [FakeHandle("dies", dies_at=verb), FakeHandle("lives")]
    restarting_with(handles, 3, run)
    report = make_weight_sync(run.sync_settings, handles, owner, 0).report(3)
    dead, alive = handles
    assert verbs(alive) == UPDATE
    assert dead.version == alive.version == 3
    assert report.lost == ()
    assert "score_sequences" in dead.verbs


def test_an_engine_that_came_back_just_before_the_weights_lay_there_takes_them_now(run, owner):
    handles = [FakeHandle("dies", dies_at="pause_generation", rises_with=2)]
    restarting_with(handles, 3, run)
    report = make_weight_sync(run.sync_settings, handles, owner, 0).report(3)
    assert handles[0].version == 3
    assert verbs(handles[0]) == ["pause_generation", "load_newest_snapshot", "resume_generation"]
    assert report.lost == ()


def test_an_engine_that_died_is_waited_for_when_the_snapshot_is_complete(run, owner):
    handle = FakeHandle("dies", dies_at="begin_update")
    restarting_with([handle], 3, run)
    transport = SharedFile(run.sync_settings, owner, 0, "cpu")
    away = []
    transport.await_snapshot = lambda: away.append(handle.away)
    weight_sync = WeightSync(run.sync_settings, [handle], owner, 0, transport, None)
    weight_sync.report(3)
    assert away == [2]
    weight_sync.report(4)
    assert away == [2]


def limited(run, timeout_s):
    return run.model_copy(update={"sync": run.sync.model_copy(update={"timeout_s": timeout_s})})


def test_a_sync_that_an_engine_stays_away_from_is_finished_with_the_others(run, owner):
    handles = [FakeHandle("gone", away=10**9), FakeHandle("there")]
    report = make_weight_sync(limited(run, 1.0).sync_settings, handles, owner, 0).report(3)
    assert report.lost == ("gone",)
    assert handles[1].version == 3
    assert handles[1].verbs[-3:] == ["get_receipts", "get_status", "score_sequences"]


def test_an_engine_that_is_back_is_not_lost_while_another_one_still_loads(run, owner):
    class Loading(FakeHandle):
        """Answers no question about its state."""

        def get_status(self):
            return Future()

    handles = [Loading("loads", dies_at="pause_generation"), FakeHandle("back", dies_at="pause_generation")]
    restarting_with(handles, 3, run)
    settings = limited(run, 3.0).sync_settings
    report = WeightSync(settings, handles, owner, 0, SharedFile(settings, owner, 0, "cpu"), None).report(3)
    assert report.lost == ("loads",)
    assert handles[1].version == 3
    assert "get_receipts" in handles[1].verbs


class Watched(FakeHandle):
    """Notes how long some of its answers may take."""

    def __init__(self, name, **settings):
        super().__init__(name, **settings)
        self.limits = []

    def load_newest_snapshot(self):
        return self.watch("load", super().load_newest_snapshot())

    def get_receipts(self):
        return self.watch("receipts", super().get_receipts())

    def watch(self, what, future):
        result = future.result

        def noted(timeout):
            self.limits.append((what, timeout))
            return result(timeout)

        future.result = noted
        return future


def test_all_that_follows_the_wait_for_an_engine_has_the_time_limit_once_more_together(run, owner):
    handle = Watched("dies", dies_at="pause_generation", rises_with=2)
    restarting_with([handle], 3, run)
    make_weight_sync(run.sync_settings, [handle], owner, 0).report(3)
    (first, load_s), (second, receipts_s) = handle.limits
    assert (first, second) == ("load", "receipts")
    assert receipts_s < load_s


def test_an_engine_that_does_not_answer_is_named_at_the_deadline(run, owner):
    handle = FakeHandle("mute")
    handle.begin_update = lambda contents: Future()
    with pytest.raises(Stalled, match="mute did not begin"):
        make_weight_sync(limited(run, 1.0).sync_settings, [handle], owner, 0).sync_weights(3)


def test_an_adapter_is_taken_while_engines_go_on(run, owner):
    run = run.model_copy(
        update={
            "sync": run.sync.model_copy(update={"transport": "adapter"}),
        }
    )
    handle = FakeHandle()
    report = make_weight_sync(run.sync_settings, [handle], owner, 0).report(3)
    snapshot = newest_snapshot(snapshot_folder(run.folder, run.sync.folder))
    assert (snapshot.version, snapshot.kind) == (3, "adapter")
    assert verbs(handle) == ["load_adapter"]
    assert report.bytes > 6 * 4
    assert report.paused_s == 0.0


def test_a_manifest_is_replaced_in_one_piece(run):
    folder = snapshot_folder(run.folder, run.sync.folder)
    note_snapshot(folder, WeightSnapshot(1, "weights", folder / "one"))
    note_snapshot(folder, WeightSnapshot(2, "adapter", folder / "two"))
    assert newest_snapshot(folder) == WeightSnapshot(2, "adapter", folder / "two")
    clear_snapshots(folder)
    assert newest_snapshot(folder) is None


def test_snapshots_take_memory_where_their_folder_lies_in_shared_memory(run, tmp_path, monkeypatch):
    shared, other = tmp_path / "shm", tmp_path / "tmp"
    monkeypatch.setattr(snapshots, "SHARED_MEMORY", shared)
    monkeypatch.setattr(tempfile, "tempdir", str(other))
    assert not are_in_memory(None)
    assert snapshot_folder(run.folder, None).parent == other
    shared.mkdir()
    assert are_in_memory(None)
    assert snapshot_folder(run.folder, None).parent == shared
    assert are_in_memory(shared / "mine")
    assert not are_in_memory(other)
