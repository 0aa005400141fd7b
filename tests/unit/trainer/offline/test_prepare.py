"""Rows of a stage: what they hold, and what becomes of those that do not fit."""

import pytest

from sandbox_contract.messages import Message
from tests.harness.tiny_chat import tiny_chat
from trainer.config import PreferencesStageConfig, RewardModelStageConfig, SftStageConfig
from trainer.errors import DataError
from trainer.offline.prepare import stage_batches
from trainer.recorded.types import LabelledCompletion, Preference, RecordedEpisode, RowOrigin
from trainer.types import Objective

DATA = {"files": ["rows.jsonl"]}
SFT = SftStageConfig(data=DATA, steps=1, batch=2, name="sft")
PAIRS = PreferencesStageConfig(data=DATA, steps=1, batch=1, name="pairs")


def user(text):
    return Message(role="user", content=text)


def turn(text):
    return Message(role="assistant", content=text)


def episode(row, *texts, weight=1.0):
    said = [message for text in texts for message in (turn(text), user("Go on."))]
    return RecordedEpisode((user("Count."), *said), RowOrigin("rows.jsonl", row), weight=weight)


def batches(stage, records, context=400):
    return stage_batches(stage, records, 0, context, tiny_chat())


def test_a_row_of_sft_is_one_sample_with_the_weight_of_its_episode():
    made = batches(SFT, [episode(1, "one", weight=1.5), episode(2, "two", weight=0.5)])
    batch = made.get_batch(0)
    assert batch.objective is Objective.SFT
    assert sorted(sample.weight for sample in batch.samples) == [0.5, 1.5]
    assert batch.metrics == {"data/rows": 2, "data/dropped": 0, "data/truncated": 0, "data/epoch": 1.0}


def test_weights_of_the_rows_that_are_trained_on_are_1_on_average():
    stage = SFT.model_copy(update={"batch": 3, "overlong": "drop"})
    long = episode(4, "three " * 200, weight=9.0)
    records = [
        episode(1, "one", weight=0.5),
        episode(2, "two", weight=1.5),
        episode(3, "two", weight=4),
        long,
    ]
    batch = batches(stage, records).get_batch(0)
    assert sorted(sample.weight for sample in batch.samples) == [0.25, 0.75, 2.0]


def test_a_pair_is_two_samples_of_one_group():
    pair = Preference((user("Count."),), (turn("one"),), (turn("two"),), RowOrigin("rows.jsonl", 1))
    chosen, rejected = batches(PAIRS, [pair]).get_batch(0).samples
    assert (chosen.preferred, rejected.preferred) == (True, False)
    assert chosen.group == rejected.group


def test_skipped_turns_of_completions_are_not_trained_on():
    said = (turn("one"), user("Go on."), turn("two"))
    origin = RowOrigin("rows.jsonl", 1)
    pair = Preference((user("Count."),), said, (turn("three"),), origin, chosen_skipped=frozenset({0}))
    chosen, rejected = batches(PAIRS, [pair]).get_batch(0).samples
    chat = tiny_chat()
    assert chat.said(chosen.token_ids_T[chosen.mask_T].tolist()) == "two"
    assert chat.said(rejected.token_ids_T[rejected.mask_T].tolist()) == "three"
    labelled = LabelledCompletion((user("Count."),), said, True, origin, skipped=frozenset({2}))
    other = LabelledCompletion((user("Say."),), said, False, origin, skipped=frozenset({2}))
    samples = batches(PAIRS.model_copy(update={"batch": 2}), [labelled, other]).get_batch(0).samples
    assert {chat.said(each.token_ids_T[each.mask_T].tolist()) for each in samples} == {"one"}
    nothing = Preference((user("Count."),), (turn("one"),), said, origin, chosen_skipped=frozenset({0}))
    with pytest.raises(DataError, match=r"rows\.jsonl:1: all turns of a completion are marked"):
        batches(PAIRS, [nothing])


@pytest.mark.parametrize("more", [0, 90], ids=["whole", "truncated"])
def test_a_reward_model_scores_completions_whose_turns_are_marked(more):
    stage = RewardModelStageConfig(data=DATA, steps=1, batch=1, name="judge", held_out=0, overlong="truncate")
    rejected = (turn("two"), user("Go on."), turn("three " * (1 + more)))
    origin = RowOrigin("rows.jsonl", 1)
    pair = Preference((user("Count."),), (turn("one"),), rejected, origin, rejected_skipped=frozenset({0, 2}))
    batch = batches(stage, [pair], context=60).get_batch(0)
    assert [sample.preferred for sample in batch.samples] == [True, False]
    assert (batch.metrics["data/rows"], batch.metrics["data/dropped"]) == (1, 0)
    assert batch.metrics["data/truncated"] == (1 if more else 0)


def test_a_labelled_completion_comes_with_its_prompt_and_the_completion_of_another():
    labelled = [
        LabelledCompletion(
            (user(f"Count to {row}."),), (turn("word " * row),), row == 1, RowOrigin("rows.jsonl", row)
        )
        for row in (1, 2)
    ]
    chat = tiny_chat()
    stage = PAIRS.model_copy(update={"batch": 2})
    samples = batches(stage, labelled).get_batch(0).samples
    mismatched = {sample.group: sample for sample in samples if sample.preferred is None}
    assert {sample.group: sample.preferred for sample in samples if sample.preferred is not None} == {
        0: True,
        1: False,
    }
    text = chat.decode(mismatched[0].token_ids_T.tolist())
    assert "Count to 1." in text
    assert "word word" in text
    assert all(sample.weight == 0 for sample in mismatched.values())


class CountedPrompt(tuple):
    """A prompt that counts how often it is compared."""

    compared = 0

    def __ne__(self, other):
        CountedPrompt.compared += 1
        return super().__ne__(other)

    __hash__ = tuple.__hash__


def test_the_other_completion_is_the_next_of_another_prompt_and_is_found_at_once():
    prompts = [CountedPrompt((user(f"Count {text}."),)) for text in ["up", *["down"] * 40, "far", "up"]]
    records = [
        LabelledCompletion(prompt, (turn(f"word{row}"),), row % 2 == 0, RowOrigin("rows.jsonl", row))
        for row, prompt in enumerate(prompts)
    ]
    made = batches(PAIRS.model_copy(update={"batch": len(records)}), records).get_batch(0)
    chat = tiny_chat()
    others = {
        sample.group: chat.said(sample.token_ids_T[sample.mask_T].tolist())
        for sample in made.samples
        if sample.preferred is None
    }
    assert others == {0: "word1", **dict.fromkeys(range(1, 41), "word41"), 41: "word42", 42: "word1"}
    assert CountedPrompt.compared < 3 * len(records)


def test_rows_that_do_not_fit_are_refused_together_by_file_and_row():
    rows = [episode(1, "one"), episode(2, "a very long answer " * 9), episode(7, "another long one " * 9)]
    with pytest.raises(DataError) as error:
        batches(SFT, rows, context=60)
    assert "2 of 3 rows" in str(error.value)
    assert "rows.jsonl:2: has" in str(error.value)
    assert "rows.jsonl:7: has" in str(error.value)
    assert "overlong=drop" in str(error.value)


def test_rows_that_do_not_fit_are_left_out_and_counted():
    stage = SFT.model_copy(update={"overlong": "drop"})
    rows = [episode(1, "one"), episode(2, "a long answer " * 9)]
    metrics = batches(stage, rows, context=60).get_batch(0).metrics
    assert (metrics["data/rows"], metrics["data/dropped"]) == (1, 1)


@pytest.mark.parametrize(("ends", "warned"), [({"epochs": 1.0}, True), ({}, False)])
def test_rows_that_epochs_count_and_that_are_left_out_are_warned_of(caplog, ends, warned):
    stage = SFT.model_copy(update={"overlong": "drop", **ends})
    batches(stage, [episode(1, "one"), episode(2, "a long answer " * 9)], context=60)
    assert ("1 of 2 rows are left out, which its epochs count" in caplog.text) is warned


def test_rows_are_truncated_after_their_last_turn_that_fits():
    stage = SFT.model_copy(update={"overlong": "truncate", "batch": 1})
    made = batches(stage, [episode(1, "one", "a long answer " * 9), episode(2, "long " * 90)], context=60)
    batch = made.get_batch(0)
    (sample,) = batch.samples
    assert len(sample) <= 60
    assert set(sample.turns_T[sample.mask_T].tolist()) == {0}
    assert (batch.metrics["data/truncated"], batch.metrics["data/dropped"]) == (1, 1)


@pytest.mark.parametrize(
    ("seen", "rejected"), [("line " * 60, "wrong"), ("line", "wrong " * 60)], ids=["both", "one"]
)
def test_a_pair_that_is_cut_before_its_sides_part_is_left_out(seen, rejected):
    begun, origin = (turn("I look."), user(seen)), RowOrigin("rows.jsonl", 2)
    cut = Preference((user("Fix it."),), (*begun, turn("right")), (*begun, turn(rejected)), origin)
    parted = Preference((user("Say."),), (turn("one"),), (turn("two"),), RowOrigin("rows.jsonl", 1))
    stage = PAIRS.model_copy(update={"overlong": "truncate"})
    metrics = batches(stage, [parted, cut], context=60).get_batch(0).metrics
    assert metrics == {"data/rows": 1, "data/dropped": 1, "data/truncated": 0, "data/epoch": 1.0}


def test_data_of_which_nothing_fits_is_an_error():
    stage = SFT.model_copy(update={"overlong": "drop"})
    with pytest.raises(DataError, match="stage sft: none of 1 rows fits the context of 5 tokens"):
        batches(stage, [episode(1, "one")], context=5)
