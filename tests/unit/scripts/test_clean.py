"""``make clean`` keeps what nothing makes again; ``make distclean`` asks before it removes that, too."""

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
KEPT = (
    "var/runs/demo/metrics.jsonl",
    "var/models/tiny/config.json",
    "var/trajectories.sqlite",
    "var/sessions.jsonl",
    "var/postgres/data/PG_VERSION",
    "var/engine/docker.sock",
)
REMOVED = (
    ".venv/bin/python",
    ".ruff_cache/tag",
    "build/lib/trainer/removed.py",
    "clients/build/lib/sandbox_client/removed.py",
    "clients/training_sandbox_client.egg-info/SOURCES.txt",
    "var/site/index.html",
    "var/agents/langgraph/bin/python",
)


@pytest.fixture
def checkout(tmp_path):
    shutil.copy(ROOT / "Makefile", tmp_path)
    for name in (*KEPT, *REMOVED):
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    return tmp_path


def make(target, checkout, answer):
    words = ["make", "--silent", target]
    return subprocess.run(words, cwd=checkout, input=answer, check=False, capture_output=True, text=True)


def test_runs_models_databases_and_episodes_outlive_make_clean(checkout) -> None:
    assert make("clean", checkout, "").returncode == 0
    assert [name for name in KEPT if not (checkout / name).exists()] == []
    assert [name for name in REMOVED if (checkout / name).exists()] == []


@pytest.mark.parametrize("answer", ["", "\n", "n\n", "yes, but later\n"])
def test_distclean_removes_nothing_without_a_yes(checkout, answer) -> None:
    done = make("distclean", checkout, answer)
    assert done.returncode != 0
    assert str(checkout / "var") in done.stdout
    assert [name for name in (*KEPT, *REMOVED) if not (checkout / name).exists()] == []


def test_distclean_removes_everything_that_was_made(checkout) -> None:
    assert make("distclean", checkout, "y\n").returncode == 0
    assert [path.name for path in checkout.rglob("*") if path.is_file()] == ["Makefile"]
