"""The benchmark itself: every suite runs, and no figure stands without a yardstick."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from service_cli.bench.context import Sizes
from service_cli.bench.suites import CLIENT, DURABILITY, EPISODES, SUITES
from tests.harness.sampling import where_changed

pytestmark = [pytest.mark.ray, pytest.mark.slow, pytest.mark.timeout(400), where_changed("bench")]


def branches(figures: object, path: str = "") -> Iterator[tuple[str, dict[str, object]]]:
    if isinstance(figures, dict):
        yield path, figures
        for name, below in figures.items():
            yield from branches(below, f"{path}/{name}")


def test_every_suite_runs_and_every_time_has_its_yardstick(tmp_path: Path) -> None:
    main = "from service_cli.commands.app import main; main()"
    words = ["bench", "--quick", "--kind", "process", "--output", "bench.json", "--env", "echo"]
    command = [sys.executable, "-c", main, *words]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=380, check=False)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report == json.loads((tmp_path / "bench.json").read_text())
    assert set(report) == {"machine", "in_flight", "rounds", CLIENT, "process", "took_s"}
    assert set(report["process"]) == {*SUITES, DURABILITY, EPISODES}
    assert all(name in done.stderr for name in SUITES)
    for path, figures in branches(report["process"]):
        if "p50_ms" in figures:
            assert figures["yardstick_p50_ms"], path
            assert figures["ratio_p50"], path
    assert report["process"]["code_instances"]["instances"] == Sizes.quick().code_instances
    assert all(ratio > 0 for ratio in report["process"][DURABILITY]["acknowledged_to_fast"].values())
    episodes = report["process"][EPISODES]["echo"]
    assert episodes["memory"]["instances"] == Sizes.quick().idle_instances
    for clients in (1, 8, 32, 128):
        level = episodes[f"at_{clients}"]
        assert level["episodes"] == level["solved"] >= clients
