from pathlib import Path

import pytest

from deploy.config_file import ConfigError, read_config
from sandbox_service.config import ServiceConfig


def test_without_anything_all_is_default() -> None:
    assert read_config() == ServiceConfig()


def test_words_win_over_the_file(tmp_path: Path) -> None:
    file = tmp_path / "service.toml"
    file.write_text("[server]\nport = 9000\nreplicas = 2\n[pools.code]\nmin_boxes = 3\n")
    config = read_config(file, ["server.port=9001", "pools.code.max_boxes=5", "sandbox.kind=process"])
    assert (config.server.port, config.server.replicas) == (9001, 2)
    assert (config.pool_of("code").min_boxes, config.pool_of("code").max_boxes) == (3, 5)
    assert config.sandbox.kind == "process"


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("server.insecure=true", True),
        ("server.insecure=false", False),
    ],
)
def test_values_are_toml(word: str, expected: bool) -> None:
    assert read_config(None, [word]).server.insecure is expected


def test_lists_and_paths_are_understood() -> None:
    config = read_config(
        None, ['environments.code.task_files=["a.jsonl", "b.jsonl"]', "sandbox.state_dir=/tmp/x"]
    )
    assert config.environments.code.task_files == (Path("a.jsonl"), Path("b.jsonl"))
    assert config.sandbox.state_dir == Path("/tmp/x")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["server.port"], "not of the form key=value"),
        (["=1"], "not of the form key=value"),
        (["server..port=1"], "not of the form key=value"),
        (["server.port=1", "server.port.x=1"], "port is a value"),
        (["server.prot=1"], "server.prot"),
        (["server.port=0"], "server.port"),
    ],
)
def test_what_is_wrong_is_named(words: list[str], sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        read_config(None, words)


def test_a_missing_or_broken_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        read_config(tmp_path / "none.toml")
    broken = tmp_path / "broken.toml"
    broken.write_text("[server\n")
    with pytest.raises(ConfigError, match="not TOML"):
        read_config(broken)
