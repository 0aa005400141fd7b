"""The token view: probabilities as levels, and the tokenizer that the tokens' texts come from."""

import json
import math

import pytest

from sandbox_service.console.run_folder import TrainingRun
from sandbox_service.console.run_records import RunSegment
from sandbox_service.console.tokens import find_decoder, shown_segments
from sandbox_service.console.update_record import SegmentRecord


def shown(*logprobs, mask=None):
    """The segment of tokens with these log-probabilities."""
    kept = mask or (True,) * len(logprobs)
    segment = RunSegment(tuple(range(len(kept))), kept, logprobs)
    return shown_segments([segment], [SegmentRecord()], 0, None)[0]


def test_probabilities_are_levels_and_context_has_none():
    segment = shown(0.0, -0.05, -0.5, -2.0, -4.0, -9.0, mask=(False, True, True, True, True, True))
    assert [token.level for token in segment.tokens] == [None, 0, 1, 2, 3, 4]


@pytest.mark.parametrize("unknown", [math.nan, math.inf, -math.inf])
def test_a_log_probability_that_is_not_finite_is_unknown(unknown):
    segment = shown(unknown, -1.0)
    assert [(token.logprob, token.level) for token in segment.tokens] == [(None, None), (-1.0, 2)]
    assert segment.mean_logprob == -1.0


def test_a_sampled_token_without_a_recorded_log_probability_has_no_level():
    segment = shown(-1.0, mask=(True, True))
    assert [token.level for token in segment.tokens] == [2, None]


def test_a_model_whose_folder_cannot_be_read_leaves_tokens_their_ids(tmp_path):
    # No user can follow the link, root included.
    (tmp_path / "model").symlink_to("x" * 300)
    run = tmp_path / "run"
    run.mkdir()
    (run / "run.json").write_text(json.dumps({"model": {"path": str(tmp_path / "model")}}))
    assert find_decoder(TrainingRun(run)) is None
