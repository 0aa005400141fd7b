"""A damaged model folder is an error that names the file."""

import pytest

from tests.harness.chat_templates import CHATML, write_tokenizer
from trainer.chat import ChatTokenizer
from trainer.config.model import ChatConfig
from trainer.errors import ConfigError

FILES = ["tokenizer_config.json", "generation_config.json", "config.json"]


@pytest.mark.parametrize("damage", [b"", b'{"eos_token_id": ', b"[1]", b"\xff\xfe", b"null"])
@pytest.mark.parametrize("name", FILES)
def test_a_damaged_file_is_named(tmp_path, name: str, damage: bytes) -> None:
    folder = write_tokenizer(tmp_path, CHATML, eos_token_id=7)
    (folder / name).write_bytes(damage)
    with pytest.raises(ConfigError) as caught:
        ChatTokenizer(folder, ChatConfig())
    assert str(folder) in str(caught.value)


def test_a_folder_instead_of_a_file_is_named(tmp_path) -> None:
    folder = write_tokenizer(tmp_path, CHATML)
    (folder / "config.json").mkdir()
    with pytest.raises(ConfigError, match=str(folder)):
        ChatTokenizer(folder, ChatConfig())
