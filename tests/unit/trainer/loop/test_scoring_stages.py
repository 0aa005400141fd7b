"""Notes of the models that stages train."""

import pytest

from trainer.config import ProcessRewardModelStageConfig, RewardModelStageConfig
from trainer.loop.scoring_stages import note_of


@pytest.mark.parametrize(
    ("kind", "more"),
    [(RewardModelStageConfig, {}), (ProcessRewardModelStageConfig, {"dimensions": ["progress"]})],
)
def test_a_model_of_a_stage_is_read_at_the_stop_token_where_it_learnt(tmp_path, kind, more):
    file = tmp_path / "rows.jsonl"
    file.write_text("")
    stage = kind.model_validate({"data": {"files": [file]}, "steps": 1, "name": "judge", **more})
    assert note_of(stage, {"pairs/mean": 1.0, "pairs/deviation": 2.0}).read_at == "stop_token"
