from pathlib import Path

import pytest

from sandbox_service.config import ServiceConfig
from sandbox_service.config.reading import read_config
from sandbox_settings import SettingsError, to_toml


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


def test_none_switches_an_optional_setting_off(tmp_path: Path) -> None:
    file = tmp_path / "service.toml"
    file.write_text('[fleet]\naddress = "auto"\n')
    assert read_config(file).fleet.address == "auto"
    assert read_config(file, ["fleet.address=none"]).fleet.address is None


def test_what_is_written_reads_as_the_same_configuration(tmp_path: Path) -> None:
    config = read_config(None, ["server.port=9001", "pools.code.max_boxes=5", "sandbox.kind=process"])
    file = tmp_path / "service.toml"
    file.write_text(to_toml(config), encoding="utf-8")
    assert read_config(file) == config


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
    with pytest.raises(SettingsError, match=sentence):
        read_config(None, words)


def test_a_missing_or_broken_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="cannot be read"):
        read_config(tmp_path / "none.toml")
    broken = tmp_path / "broken.toml"
    broken.write_text("[server\n")
    with pytest.raises(SettingsError, match="not TOML"):
        read_config(broken)


def test_nodes_by_demand_need_the_resource_that_marks_them() -> None:
    with pytest.raises(SettingsError, match="enabled needs node_resource"):
        read_config(None, ["fleet.scaling.enabled=true"])


def test_the_bounds_of_scaling_are_ordered() -> None:
    with pytest.raises(SettingsError, match="max_nodes must not be smaller"):
        read_config(None, ["fleet.scaling.min_nodes=3", "fleet.scaling.max_nodes=2"])


def test_a_key_belongs_to_a_tenant_with_a_name(tmp_path: Path) -> None:
    file = tmp_path / "service.toml"
    file.write_text(f'[server.api_keys]\n"{"a" * 64}" = ""\n')
    with pytest.raises(SettingsError, match=r"server\.api_keys.* at least 1 character"):
        read_config(file)
