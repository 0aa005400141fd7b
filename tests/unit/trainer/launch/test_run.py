"""The start of a run: doubtful settings are warned of before anything starts."""

from pathlib import Path

import pytest

from trainer.config import RunConfig
from trainer.errors import DataError
from trainer.launch.run import train


def test_a_split_for_training_and_evaluation_is_warned_of(tmp_path: Path) -> None:
    run = RunConfig.model_validate(
        {
            "root": tmp_path,
            "tasks": {"splits": ["arithmetic_train"]},
            "evaluation": {"splits": ["arithmetic_train"]},
            "warm_start": {"demonstrations": tmp_path / "absent.jsonl"},
        }
    )
    warnings: list[str] = []
    with pytest.raises(DataError, match=r"absent\.jsonl"):
        train(run, on_warning=warnings.append)
    (warning,) = warnings
    assert warning.startswith("the split arithmetic_train of code is both trained on and evaluated on")
