from pathlib import Path

from typer.testing import CliRunner

from tests.fakes.training import FakeDriver
from trainer.cli.app import build_cli


def test_a_folder_that_has_a_model_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    driver = FakeDriver()
    refused = CliRunner().invoke(build_cli(), ["model", str(tmp_path), "hidden=64"], obj=driver)
    assert refused.exit_code == 2
    assert "has a model already" in " ".join(refused.stderr.split())
    assert "wrote" not in refused.stdout
    assert driver.calls == []


def test_the_sign_for_standard_output_is_no_folder() -> None:
    driver = FakeDriver()
    refused = CliRunner().invoke(build_cli(), ["model", "-"], obj=driver)
    assert (refused.exit_code, "is not standard output here" in refused.stderr, driver.calls) == (2, True, [])
