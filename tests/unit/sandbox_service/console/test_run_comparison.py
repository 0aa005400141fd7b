"""Training runs over each other: final values and settings."""

import json

from sandbox_service.console.run_comparison import compare_runs, differing_settings
from sandbox_service.console.run_folder import TrainingRun


def write(folder, metrics, settings=None):
    """A run's folder with these metrics by step."""
    folder.mkdir()
    lines = [json.dumps({"step": step, "metrics": values}) for step, values in enumerate(metrics)]
    (folder / "metrics.jsonl").write_text("".join(f"{line}\n" for line in lines))
    if settings is not None:
        (folder / "run.json").write_text(json.dumps(settings))
    return TrainingRun(folder)


def test_final_values_are_the_last_that_each_run_recorded(tmp_path):
    one = write(tmp_path / "one", [{"reward/mean": 0.1, "loss/sft": 2.0}, {"reward/mean": 0.3}])
    two = write(tmp_path / "two", [{"reward/mean": 0.5}])
    view = compare_runs([one, two], "")
    assert [(row.name, row.values) for row in view.finals] == [
        ("reward/mean", (0.3, 0.5)),
        ("loss/sft", (2.0, None)),
    ]
    assert view.last_steps == (1, 0)
    assert view.finals[1].url == "/console/compare_runs?run=one&run=two&metric=loss%2Fsft"


def test_without_a_metric_the_first_that_a_run_has_is_shown(tmp_path):
    one = write(tmp_path / "one", [{"loss/sft": 1.0}])
    assert compare_runs([one, write(tmp_path / "two", [])], "").overlay.metric == "loss/sft"


def test_only_settings_that_differ_are_listed_but_not_the_names_of_the_runs():
    rows = differing_settings(
        {
            "one": {"name": "one", "seed": 1, "loss": {"kind": "ppo", "clip": {"low": 0.2}}, "tags": []},
            "two": {"name": "two", "seed": 1, "loss": {"kind": "gspo"}, "tags": ["a"]},
        }
    )
    assert [(row.name, row.values) for row in rows] == [
        ("loss.kind", ("ppo", "gspo")),
        ("loss.clip.low", ("0.2", "not set")),
        ("tags", ("[]", '["a"]')),
    ]


def test_held_out_success_and_scores_are_among_the_final_values(tmp_path):
    held_out = {"evaluation/success": 0.25, "evaluation/score": 0.5, "evaluation/source/a": 0.75}
    one = write(tmp_path / "one", [{"success/mean": 0.1, **held_out}, {"success/mean": 0.2}])
    view = compare_runs(
        [one, write(tmp_path / "two", [{"evaluation/success/hard": 0.0}])], "evaluation/success"
    )
    assert [(row.name, row.values) for row in view.finals] == [
        ("success/mean", (0.2, None)),
        ("evaluation/success", (0.25, None)),
        ("evaluation/score", (0.5, None)),
        ("evaluation/source/a", (0.75, None)),
        ("evaluation/success/hard", (None, 0.0)),
    ]
    assert [each.run for each in view.overlay.curves] == ["one"]


def test_passwords_of_addresses_and_variables_of_agents_are_not_shown():
    rows = differing_settings(
        {
            "one": {
                "service": {"start": ["store.url=postgresql://me:hidden@db/x"]},
                "agent": {"environment": {"KEY": "hidden"}},
                "tasks": {"environment": "code"},
            },
            "two": {
                "service": {"start": []},
                "agent": {"environment": {"KEY": "hidden, too"}},
                "tasks": {"environment": "bfcl"},
            },
        }
    )
    assert [row.values for row in rows] == [
        ('["store.url=postgresql://***@db/x"]', "[]"),
        ("not shown", "not shown"),
        ("code", "bfcl"),
    ]


def test_a_run_whose_settings_cannot_be_read_is_named(tmp_path):
    one, two = write(tmp_path / "one", [], {"seed": 1}), write(tmp_path / "two", [])
    three = write(tmp_path / "three", [], {"seed": 2})
    view = compare_runs([one, two, three], "")
    assert (view.with_settings, view.without_settings) == (("one", "three"), ("two",))
    assert [(row.name, row.values) for row in view.settings] == [("seed", ("1", "2"))]
