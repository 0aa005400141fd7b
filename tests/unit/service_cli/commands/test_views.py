"""The output of status and envs in a terminal of 80 columns."""

from __future__ import annotations

import io

from rich.console import Console, RenderableType

from sandbox_contract.inspection import PoolStats, Split, Stats, SupervisorStats
from sandbox_service.environments.echo.service.catalog import EchoCatalog
from service_cli.commands.envs import environments_view
from service_cli.commands.status import stats_view


def printed(view: RenderableType, width: int = 80) -> list[str]:
    text = io.StringIO()
    Console(file=text, width=width, highlight=False).print(view)
    return text.getvalue().splitlines()


def pool(environment: str, sandbox: str) -> PoolStats:
    return PoolStats(
        environment=environment,
        sandbox=sandbox,
        starting=10,
        idle=100,
        busy=100,
        resetting=10,
        instances=16384,
        queued=4096,
        min_boxes=1,
        max_boxes=256,
        started_total=123456,
        destroyed_total=123400,
    )


def test_the_status_of_a_full_fleet_keeps_its_words_and_numbers_whole():
    pools = (pool("scienceworld", "process"), pool("code", "docker"))
    supervisor = SupervisorStats(
        name="s8f3a1b2c4dx0", node="trainer-0", draining=False, uptime_s=86400, pools=pools
    )
    stats = Stats(supervisors=(supervisor,), instances=32768, queued=8192)
    lines = printed(stats_view(stats, "http://127.0.0.1:8080"))
    (header,) = [line for line in lines if line.startswith("environment")]
    assert header.split()[:3] == ["environment", "sandbox", "boxes"]
    assert header.split()[3:] == ["idle", "busy", "starting", "resetting", "instances", "waiting"]
    (row,) = [line for line in lines if line.startswith("scienceworld")]
    assert row.split() == [
        "scienceworld",
        "process",
        "220",
        "of",
        "256",
        "100",
        "100",
        "10",
        "10",
        "16384",
        "4096",
    ]
    assert any("246912 boxes started" in line for line in lines)


def test_the_status_in_a_narrow_terminal_is_a_list_with_whole_numbers():
    figures = {"image_busy": 7, "image_queued": 3, "max_image_boxes": 32}
    pools = (pool("scienceworld", "process"), pool("code", "docker").model_copy(update=figures))
    supervisor = SupervisorStats(name="s", node="n", draining=False, uptime_s=1, pools=pools)
    lines = printed(stats_view(Stats(supervisors=(supervisor,), instances=0, queued=0), "http://h"), 60)
    assert max(map(len, lines)) <= 60
    text = " ".join(" ".join(lines).split())
    rest = "idle 100, busy 100, starting 10, resetting 10, instances 16384, waiting 4096"
    assert f"scienceworld process: boxes 220 of 256, {rest}" in text
    assert f"code docker: boxes 220 of 288, {rest}" in text
    assert "- images: boxes of 32, busy 7, waiting 3" in text


def test_the_status_shows_boxes_of_images_of_single_tasks_apart():
    figures = {"image_busy": 7, "image_queued": 3, "max_image_boxes": 32}
    gradings = {"verifier_busy": 2, "max_verifier_boxes": 16}
    pools = (pool("code", "docker").model_copy(update={**figures, **gradings}), pool("echo", "docker"))
    supervisor = SupervisorStats(name="s", node="n", draining=False, uptime_s=1, pools=pools)
    lines = printed(stats_view(Stats(supervisors=(supervisor,), instances=0, queued=0), "http://h"))
    rows = [line.split() for line in lines[-4:]]
    assert rows[0][:5] == ["code", "docker", "220", "of", "304"]
    assert rows[1:3] == [["-", "images", "of", "32", "7", "3"], ["-", "verifiers", "of", "16", "2"]]
    assert rows[3][:5] == ["echo", "docker", "220", "of", "256"]


def test_the_status_says_what_protects_a_node_from_its_process_boxes():
    protections = {"own user ids": False, "own namespaces": True, "filtered system calls": True}
    supervisor = SupervisorStats(
        name="s",
        node="n",
        draining=False,
        uptime_s=1,
        protections=protections,
        pools=(pool("code", "process"),),
    )
    lines = printed(stats_view(Stats(supervisors=(supervisor,), instances=0, queued=0), "http://h"))
    assert "protections on: own namespaces, filtered system calls" in lines
    assert "protections off: own user ids" in lines


def test_the_status_names_supervisors_that_get_no_requests():
    stats = Stats(supervisors=(), instances=0, queued=0, excluded={"s2": "another version"})
    assert "s2 gets no requests: another version" in printed(stats_view(stats, "http://h"))


def test_an_environment_of_many_splits_takes_a_few_lines_with_its_default_first():
    splits = tuple(Split(name=f"category_{number}", size=number) for number in range(60))
    described = EchoCatalog().describe()
    update = {"name": "bfcl", "splits": splits, "default_split": "category_42"}
    lines = printed(environments_view([described.model_copy(update=update)]))
    text = " ".join(" ".join(lines).split())
    assert text.startswith(f"bfcl {described.description}")
    assert "category_42 42, category_0 0, category_1 1" in text
    assert text.endswith("and 54 more splits (envs show bfcl)")
    assert len([line for line in lines if line.strip()]) <= 5
