"""Finding a model's folder."""

import huggingface_hub
import pytest

from trainer.config.model import PretrainedModel
from trainer.errors import ConfigError
from trainer.models.folders import model_folder, public_name


@pytest.mark.parametrize(
    "error",
    [OSError("We couldn't connect to the hub\nsee the traceback"), ValueError("401 Client Error")],
)
def test_a_model_that_cannot_be_downloaded_is_one_sentence(monkeypatch, tmp_path, error):
    def fail(*_args, **_words):
        raise error

    monkeypatch.setattr(huggingface_hub, "snapshot_download", fail)
    reason = str(error).partition("\n")[0]
    expected = f"^model.path: some/model is neither a folder nor a model that can be downloaded: {reason}$"
    with pytest.raises(ConfigError, match=expected):
        model_folder(PretrainedModel(path="some/model"), tmp_path)


def test_a_folder_without_a_model_is_named(tmp_path):
    with pytest.raises(ConfigError, match=r"is not a model folder: it has no config\.json"):
        model_folder(PretrainedModel(path=str(tmp_path)), tmp_path)


def test_a_downloaded_model_has_its_name_on_the_hub_and_another_its_folder(tmp_path):
    cache = tmp_path / "hub"
    assert public_name(cache / "models--Qwen--Qwen3-0.6B/snapshots/c1899de") == "Qwen/Qwen3-0.6B"
    assert public_name(cache / "models--gpt2/snapshots/607a30d") == "gpt2"
    assert public_name(tmp_path / "mine") == str(tmp_path / "mine")
