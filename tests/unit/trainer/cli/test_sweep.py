import json

import pytest
from typer.testing import CliRunner

from tests.fakes.training import FakeDriver
from tests.harness.run_folder import write_run
from trainer.cli.app import build_cli
from trainer.config.reading import read_run
from trainer.sweep.trial_results import DONE


@pytest.fixture
def run_file(tmp_path):
    file = tmp_path / "run.toml"
    file.write_text(f'name = "mine"\nroot = "{tmp_path}"\n[evaluation]\nsplits = ["test"]\n')
    return file


def run(*words, driver=None):
    return CliRunner().invoke(build_cli(), ["sweep", *map(str, words)], obj=driver or FakeDriver())


def test_all_combinations_are_trained_and_shown(run_file, tmp_path):
    root = tmp_path / "mine.sweep"
    write_run(root / "seed-0.group_size-4")
    driver = FakeDriver()
    done = run(run_file, "seed=0,1", "rollout.group_size=4,8", "steps=3", "--json", driver=driver)
    assert done.exit_code == 0, done.output
    ((verb, _, constants, names, folder, at_once),) = driver.calls
    assert (verb, constants, folder, at_once) == ("sweep", ("steps=3",), root, None)
    assert names == [f"seed-{seed}.group_size-{size}" for seed in (0, 1) for size in (4, 8)]
    trials = json.loads(done.stdout)["trials"]
    assert [trial["success"] for trial in trials] == [0.7, None, None, None]
    assert "held-out success over seed" in (root / "sweep.html").read_text()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["seed=0"], "nothing to sweep"),
        (["rollout.group=4,8"], "did you mean groups?"),
        (["name=a,b"], "name and root cannot be swept"),
        (["seed=0,1", "rollout.group_size=4,-8"], "group_size"),
    ],
)
def test_a_sweep_that_makes_no_sense_is_refused_before_anything_is_started(run_file, words, sentence):
    driver = FakeDriver()
    refused = run(run_file, *words, driver=driver)
    assert refused.exit_code == 2
    assert sentence in " ".join(refused.stderr.split())
    assert driver.calls == []


def test_a_finished_trial_of_another_sweep_is_not_taken_for_one_of_this_sweep(run_file, tmp_path):
    for seed in (0, 1):
        folder = tmp_path / "mine.sweep" / f"seed-{seed}"
        folder.mkdir(parents=True)
        trained = read_run(run_file, [f"seed={seed}", "steps=3", f"name=seed-{seed}"])
        (folder / "run.json").write_text(json.dumps(trained.model_dump(mode="json")))
        (folder / DONE).touch()
    driver = FakeDriver()
    assert run(run_file, "seed=0,1", "steps=3", driver=driver).exit_code == 0
    refused = run(run_file, "seed=0,1", "steps=5", driver=driver)
    assert refused.exit_code == 2
    assert "has a finished run with other values of steps" in " ".join(refused.stderr.split())
    assert len(driver.calls) == 1
