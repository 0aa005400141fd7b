"""A chat that cannot be is reported before anything is started for it."""

from pathlib import Path

import pytest

from tests.harness.chat_templates import CHATML, write_tokenizer
from trainer.config.reading import read_run
from trainer.errors import ConfigError
from trainer.launch.run import train

NOWHERE = "http://127.0.0.1:9"


def run_with(folder: Path, tmp_path: Path, *words: str):
    given = [f"model.path={folder}", "model.kind=pretrained", f"root={tmp_path / 'runs'}", "name=chat"]
    environment = ["tasks.environment=echo", f"service.url={NOWHERE}", "service.start_timeout_s=1"]
    return read_run(None, [*given, *environment, *words])


def model_at(folder: Path, template: str | None, config: str = '{"model_type": "llama"}') -> Path:
    folder.mkdir()
    write_tokenizer(folder, template)
    (folder / "config.json").write_text(config)
    return folder


def test_a_folder_without_a_template_is_reported_before_the_service_is_asked(tmp_path: Path) -> None:
    folder = model_at(tmp_path / "model", None)
    with pytest.raises(ConfigError, match=r"no chat template; set chat\.template"):
        train(run_with(folder, tmp_path))


def test_a_template_that_leaves_out_users_is_reported_before_the_service_is_asked(tmp_path: Path) -> None:
    folder = model_at(tmp_path / "model", "{{ bos_token }}Go.")
    with pytest.raises(ConfigError, match=r"does not render a user message followed by an assistant message"):
        train(run_with(folder, tmp_path))


def test_a_tokenizer_of_another_model_is_reported_before_the_service_is_asked(tmp_path: Path) -> None:
    folder = model_at(tmp_path / "model", CHATML, '{"model_type": "llama", "vocab_size": 64}')
    with pytest.raises(ConfigError, match=r"vocab_size is 64: they do not belong together"):
        train(run_with(folder, tmp_path))
