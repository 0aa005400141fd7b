import pytest

from tests.fakes.trackers import Mlflow, Wandb
from trainer.config.reading import read_run
from trainer.errors import ConfigError, TrainerError
from trainer.tracking.jsonl import read_metrics
from trainer.tracking.opening import open_tracker

WANDB = ["tracking.wandb_project=mine", "name=first"]
MLFLOW = ["tracking.mlflow_uri=http://tracking:5000", "tracking.mlflow_experiment=papers", "name=first"]


def missing(name):
    raise ImportError(f"No module named {name!r}")


def only(name, package):
    def give(asked):
        assert asked == name
        return package

    return give


def test_metrics_are_always_kept_and_no_package_is_imported_unasked(tmp_path):
    tracker = open_tracker(read_run().tracker_settings, tmp_path / "run", importer=missing)
    tracker.log(0, {"a": 1.0})
    tracker.close()
    assert read_metrics(tmp_path / "run" / "metrics.jsonl")[0]["a"] == 1.0


@pytest.mark.parametrize(
    "word", ["tracking.tensorboard=true", "tracking.wandb_project=p", "tracking.mlflow_uri=file:x"]
)
def test_a_missing_package_is_named_with_the_setting_and_the_remedy(tmp_path, word):
    with pytest.raises(ConfigError, match=r"cannot be imported.*pip install") as error:
        open_tracker(read_run(None, [word]).tracker_settings, tmp_path, importer=missing)
    assert word.partition("=")[0] in str(error.value)


def test_tensorboard_writes_into_the_runs_folder(tmp_path):
    tracker = open_tracker(read_run(None, ["tracking.tensorboard=true"]).tracker_settings, tmp_path)
    tracker.log(0, {"a": 1.0})
    tracker.close()
    assert list((tmp_path / "tensorboard").iterdir())


def test_wandb_gets_project_name_settings_and_steps_as_a_metric(tmp_path):
    wandb = Wandb()
    tracker = open_tracker(read_run(None, WANDB).tracker_settings, tmp_path, importer=only("wandb", wandb))
    tracker.log(4, {"reward/mean": 0.5})
    tracker.close()
    (run,) = wandb.runs
    assert (run.given["project"], run.given["name"], run.given["dir"]) == ("mine", "first", str(tmp_path))
    assert run.given["config"]["rollout.group_size"] == 8
    assert run.defined == [("*", "step")]
    assert run.logged == [{"step": 4, "reward/mean": 0.5}]
    assert run.finished == 1


def test_a_resumed_run_goes_on_at_the_services_under_its_id(tmp_path):
    wandb, mlflow = Wandb(), Mlflow()
    for _ in range(2):
        open_tracker(read_run(None, WANDB).tracker_settings, tmp_path, importer=only("wandb", wandb)).close()
        open_tracker(
            read_run(None, MLFLOW).tracker_settings, tmp_path, importer=only("mlflow", mlflow)
        ).close()
    assert wandb.runs[0].given["id"] == wandb.runs[1].given["id"]
    assert wandb.runs[1].given["resume"] == "allow"
    assert mlflow.runs == {"run0": ["0", "first", "FINISHED"]}


def test_mlflow_gets_experiment_settings_and_finite_metrics(tmp_path):
    mlflow = Mlflow()
    tracker = open_tracker(read_run(None, MLFLOW).tracker_settings, tmp_path, importer=only("mlflow", mlflow))
    tracker.log(4, {"reward/mean": 0.5, "loss/policy": float("nan")})
    tracker.close()
    assert mlflow.uri == "http://tracking:5000"
    assert mlflow.experiments == {"papers": "0"}
    assert mlflow.params["rollout.group_size"] == "8"
    assert mlflow.metrics == [("reward/mean", 0.5, 4)]
    assert all(params <= 100 for _, params in mlflow.batches)
    assert mlflow.runs["run0"][2] == "FINISHED"


def test_a_service_that_cannot_be_opened_stops_the_run_before_it_begins(tmp_path):
    class Unreachable:
        def init(self, **given):
            raise OSError("no route")

    with pytest.raises(TrainerError, match="cannot open tracker wandb: no route"):
        open_tracker(read_run(None, WANDB).tracker_settings, tmp_path, importer=only("wandb", Unreachable()))


def test_services_do_not_get_what_may_be_a_secret(tmp_path):
    wandb = Wandb()
    agent = 'agent={command=["play", "hidden"], environment={KEY="hidden"}}'
    settings = read_run(None, [*WANDB, agent, "chat.tool_format=hermes"]).tracker_settings
    open_tracker(settings, tmp_path, importer=only("wandb", wandb)).close()
    config = wandb.runs[0].given["config"]
    assert (config["agent.command"], config["agent.environment.KEY"]) == ("not shown", "not shown")


def test_the_real_wandb_keeps_an_offline_run(tmp_path, monkeypatch):
    pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    tracker = open_tracker(read_run(None, WANDB).tracker_settings, tmp_path)
    tracker.log(0, {"reward/mean": 0.5})
    tracker.close()
    (file,) = (tmp_path / "wandb").glob("offline-run-*/*.wandb")
    assert file.stat().st_size > 0


def test_the_real_mlflow_keeps_metrics_in_a_folder(tmp_path, monkeypatch):
    mlflow = pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")  # a database needs packages that the client has not
    uri = f"file:{tmp_path}/mlruns"
    tracker = open_tracker(read_run(None, [f"tracking.mlflow_uri={uri}"]).tracker_settings, tmp_path / "run")
    tracker.log(3, {"reward/mean": 0.5})
    tracker.close()
    run_id = (tmp_path / "run" / "mlflow_run").read_text().strip()
    history = mlflow.MlflowClient(tracking_uri=uri).get_metric_history(run_id, "reward/mean")
    assert [(metric.step, metric.value) for metric in history] == [(3, 0.5)]
