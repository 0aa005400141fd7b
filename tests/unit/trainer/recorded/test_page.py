"""docs/trainer/data.md names every setting and format of recorded data."""

import re
from pathlib import Path

import pytest

from sandbox_settings import settings_of
from trainer.config.recorded import RecordedFiles
from trainer.config.selection import DecontaminationConfig, LabelsConfig, PairsConfig, SelectionConfig
from trainer.recorded.reading import FORMATS

PAGE = (Path(__file__).parents[4] / "docs" / "trainer" / "data.md").read_text()
NAMED = set(re.findall(r"`([a-z_.]+)`", PAGE))


@pytest.mark.parametrize(
    "model", [RecordedFiles, SelectionConfig, PairsConfig, LabelsConfig, DecontaminationConfig]
)
def test_every_setting_is_on_the_page(model: type) -> None:
    assert {setting.key for setting in settings_of(model)} <= NAMED


def test_every_format_is_on_the_page() -> None:
    assert set(FORMATS) <= NAMED
