"""The functions of recorded training take the given data, and refuse bad data before anything starts."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from trainer.config import RunConfig
from trainer.errors import ConfigError, DataError
from trainer.launch.recorded_training import preferences, process_reward_model, reward_model, sft


@pytest.mark.parametrize("work", [sft, preferences, reward_model, process_reward_model])
def test_a_bad_row_is_refused_before_the_run_has_a_folder(tmp_path: Path, work: Callable[..., Any]) -> None:
    data = tmp_path / "rows.jsonl"
    data.write_text('{"prompt": "1 + 1?", "chosen": "2"}\n')
    config = RunConfig(root=tmp_path, name="recorded")
    with pytest.raises(DataError, match=r"rows\.jsonl:1"):
        work(config, [data])
    assert not config.folder.exists()


@pytest.mark.parametrize("work", [sft, preferences, reward_model])
def test_a_run_with_nothing_to_train_on_is_refused(tmp_path: Path, work: Callable[..., Any]) -> None:
    with pytest.raises(ConfigError, match="the run has no stage of kind"):
        work(RunConfig(root=tmp_path))
