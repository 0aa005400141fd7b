"""The model out of a package goes into a folder of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts.packaged_model import is_free, main


def test_a_folder_with_other_files_is_refused_and_keeps_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "models" / "other" / "model.safetensors"
    other.parent.mkdir(parents=True)
    other.write_text("weights")
    assert main([str(tmp_path / "models")]) == 1
    assert "has other files" in capsys.readouterr().err
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [other]


def test_a_file_is_no_place_for_a_model(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert main([str(tmp_path / "file")]) == 1
    assert (tmp_path / "file").is_file()


def test_a_model_that_is_there_is_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "model.safetensors").touch()
    assert main([str(tmp_path)]) == 0
    assert "is there already" in capsys.readouterr().out


def test_what_is_missing_or_empty_is_free(tmp_path: Path) -> None:
    assert is_free(tmp_path)
    assert is_free(tmp_path / "missing")
