"""Alert rules and dashboards by Prometheus's own program, promtool: each alert fires when it should only."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

OBSERVABILITY = Path(__file__).parents[3] / "deploy" / "observability"
RULES = OBSERVABILITY / "alerts.yaml"
CASES = Path(__file__).with_name("alert_rules.yaml")


def promtool(*words: str) -> subprocess.CompletedProcess[str]:
    """Skip where promtool is not installed; fail where it is required."""
    if shutil.which("promtool") is None:
        reason = "promtool is not installed (make promtool)"
        if os.environ.get("CI_REQUIRE_PROMTOOL") == "1":
            pytest.fail(f"promtool is required here: {reason}")
        pytest.skip(reason)
    return subprocess.run(["promtool", *words], capture_output=True, text=True, timeout=60, check=False)


def test_prometheus_accepts_the_rules() -> None:
    checked = promtool("check", "rules", str(RULES))
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_each_alert_has_a_case_in_which_it_fires_and_one_in_which_it_is_silent() -> None:
    names = [each["name"] for each in yaml.safe_load(CASES.read_text())["tests"]]
    covered = {tuple(name.split()[:2]) for name in names}
    alerts = re.findall(r"- alert: (\w+)", RULES.read_text())
    assert covered == {(alert, word) for alert in alerts for word in ("FIRES", "SILENT")}


def test_alerts_fire_on_what_they_are_for_and_on_nothing_else() -> None:
    tested = promtool("test", "rules", str(CASES))
    assert tested.returncode == 0, tested.stdout + tested.stderr


def test_prometheus_accepts_the_expressions_of_the_dashboards(tmp_path: Path) -> None:
    panels = [
        panel
        for path in sorted((OBSERVABILITY / "dashboards").glob("*.json"))
        for panel in json.loads(path.read_text())["panels"]
    ]
    asked = [target["expr"] for panel in panels for target in panel["targets"]]
    # Grafana puts durations and names in place of its variables.
    plain = [re.sub(r"\$\w+", "x", each.replace("$__rate_interval", "5m")) for each in asked]
    rules = [{"record": f"panel:{number}", "expr": each} for number, each in enumerate(plain)]
    file = tmp_path / "rules.yaml"
    file.write_text(json.dumps({"groups": [{"name": "dashboards", "rules": rules}]}))
    checked = promtool("check", "rules", str(file))
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert f"{len(asked)} rules found" in checked.stdout
