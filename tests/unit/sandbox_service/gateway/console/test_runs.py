"""The console's pages about training runs."""

import json
import re

import pytest

from sandbox_service.config import ServerConfig
from tests.harness.gateway import digest, make_client
from tests.harness.run_folder import NASTY, write_groups, write_run

KEYS = {digest("ada-key"): "ada", digest("eve-key"): "eve"}


@pytest.fixture
def root(tmp_path):
    run = write_run(tmp_path / "runs" / "mine")
    (run / "logs").mkdir()
    (run / "logs" / "batches.log").write_text("waiting for batch 12: no progress for 60 s <b>\nother\n")
    return tmp_path / "runs"


@pytest.fixture
async def client(backend, root):
    config = ServerConfig(api_keys=KEYS, console_runs={"ada": str(root)})
    async with make_client(backend, config, {"X-API-Key": "ada-key"}) as client:
        yield client


async def read(client, path, status=200):
    reply = await client.get(path)
    assert (reply.status_code, reply.headers["content-type"]) == (status, "text/html; charset=utf-8")
    assert "<script>alert" not in reply.text
    return reply.text


async def test_a_run_has_curves_steps_and_stall_reports(client):
    assert 'href="/console/runs/mine"' in await read(client, "/console/runs")
    text = await read(client, "/console/runs/mine")
    for expected in (
        "reward/mean",
        "<polyline",
        "no progress for 60 s &lt;b&gt;",
        "/console/runs/mine/steps/39",
    ):
        assert expected in text


async def test_a_run_shows_what_failures_cost_and_how_old_its_samples_are(client):
    text = await read(client, "/console/runs/mine")
    rows = dict(re.findall(r'<th scope="row">([^<]+?)(?: <small>.*)?</th><td class="n">([^<]+)</td>', text))
    assert rows["difference, lost to failures"] == "0", "at the last step"
    assert rows["failed attempts: sandbox"] == "0"
    assert rows["the same, of the oldest token"] == "1"
    assert "mean of steps 20 to 39" in text


async def test_a_step_of_the_metrics_leads_to_its_groups_after_the_warm_start(client):
    """Ten steps of a warm start precede those that consumed.jsonl counts, two groups a step."""
    text = await read(client, "/console/runs/mine/steps/11")
    assert "/console/runs/mine/groups/2" in text
    assert "/console/runs/mine/groups/3" in text
    assert "groups/4" not in text


async def test_a_group_is_shown_side_by_side_with_its_failure(client):
    text = await read(client, "/console/runs/mine/groups/5")
    for expected in ("5.0", "5.3", "the box is gone", "minus the mean", "mean log-probability"):
        assert expected in text
    assert "&lt;/script&gt;" in text, NASTY
    assert "All episodes are alike." in text
    assert 'aria-label="reward ' in text


async def test_a_group_leads_to_the_first_message_in_which_its_episodes_differ(client, root):
    file = root / "mine" / "trajectories.jsonl"
    # Not splitlines(): the texts have a line separator of their own.
    group = json.loads(file.read_text().split("\n")[0])
    group["spec"]["index"] = 77
    for number, episode in enumerate(group["trajectories"]):
        said = [("user", "1 + 1?"), ("assistant", f"{number}")]
        episode["lines"] = [{"role": role, "content": text} for role, text in said]
    with file.open("a") as lines:
        lines.write(json.dumps(group) + "\n")
    text = await read(client, "/console/runs/mine/groups/77")
    assert text.count("first difference</span>") == len(group["trajectories"])
    assert text.count('id="first-difference"') == 1
    assert '<a href="#first-difference">First difference: message 2</a>' in text


async def test_tokens_have_their_mask_probability_and_weights(client):
    text = await read(client, "/console/runs/mine/groups/5/episodes/5.1")
    assert 'title="token 1, id 2"' in text
    assert (
        'level2 raised" title="token 3, id 4, log-probability -1, weights 1, advantage 0.25, ratio 1, '
        'entropy 0.75"' in text
    )
    assert 'raised beyond" title="token 4, id 5,' in text
    assert "ratio 2.718 (truncated), entropy 0.75" in text
    assert "mean entropy 0.75, ratios 1 to 2.718" in text
    lowered = await read(client, "/console/runs/mine/groups/5/episodes/5.0")
    assert "level2 lowered" in lowered
    assert "advantage -0.25" in lowered


async def test_records_without_ratios_are_shown_without_them(client, root):
    line = {"group": 11, "step": 5, "advantages": {"11.0": [[0.0, 2], [0.5, 3]]}}
    with (root / "mine" / "advantages.jsonl").open("a") as file:
        file.write(json.dumps(line) + "\n")
    text = await read(client, "/console/runs/mine/groups/11/episodes/11.0")
    assert "advantage 0.5" in text
    assert "ratio" not in text
    assert "entropy" not in text


async def test_a_segment_that_was_not_trained_says_why(client):
    text = await read(client, "/console/runs/mine/groups/5/episodes/5.3")
    assert "not trained</span> the episode failed (sandbox: box_lost)" in text
    assert "not trained" not in await read(client, "/console/runs/mine/groups/5/episodes/5.1")


async def test_an_episode_that_was_not_trained_on_yet_has_no_advantages(client):
    text = await read(client, "/console/runs/mine/groups/11/episodes/11.0")
    assert "No advantages are recorded of this episode" in text
    assert "advantage -" not in text


async def test_what_a_live_run_adds_is_there_at_the_next_look(client, root):
    with (root / "mine" / "metrics.jsonl").open("a") as file:
        file.write(
            json.dumps({"step": 40, "time": 1.0, "metrics": {"reward/mean": 0.987, "x": None}}) + "\n{torn"
        )
    assert "steps/40" in await read(client, "/console/runs/mine")


async def test_a_run_that_began_anew_is_not_mixed_with_its_former_self(client, root):
    await read(client, "/console/runs/mine/groups/11")
    write_groups(root / "mine" / "trajectories.jsonl", 3)
    await read(client, "/console/runs/mine/groups/11", 404)
    await read(client, "/console/runs/mine/groups/2")


@pytest.fixture
def other(root):
    """A second run, of supervised learning alone."""
    run = root / "other"
    run.mkdir()
    (run / "metrics.jsonl").write_text('{"step": 0, "metrics": {"loss/sft": 1.5}}\n')
    (run / "run.json").write_text('{"name": "other", "seed": 12345}')
    return "other"


async def test_runs_that_are_ticked_are_compared(client, other):
    text = await read(client, "/console/runs")
    assert text.count('type="checkbox" name="run"') == 2
    text = await read(client, f"/console/compare_runs?run=mine&run={other}&metric=loss/sft")
    for expected in ('class="line1"', 'class="line2"', "12345", "<option selected>loss/sft</option>"):
        assert expected in text
    assert text.count("<polyline") == 2


async def test_a_run_without_the_metric_is_left_out_by_name(client, other):
    text = await read(client, f"/console/compare_runs?run=mine&run={other}")
    assert "Without reward/mean, and so not drawn: other." in text
    assert text.count("<polyline") == 1


@pytest.mark.parametrize(
    ("query", "status", "detail"),
    [
        ("", 422, "the address names 0"),
        ("run=mine", 422, "the address names 1"),
        ("run=mine&run=mine", 422, "the address names 1"),
        ("&".join(f"run=r{number}" for number in range(9)), 422, "tick 2 to 8 runs"),
        ("run=mine&run=gone", 404, "there is no run gone"),
        ("run=mine&run=../mine", 404, "there is no run ../mine"),
    ],
)
async def test_a_comparison_of_too_few_too_many_or_unknown_runs_says_so(client, query, status, detail):
    assert detail in await read(client, f"/console/compare_runs?{query}", status)


async def test_runs_of_another_tenant_cannot_be_compared(client, other):
    client.headers["X-API-Key"] = "eve-key"
    await read(client, f"/console/compare_runs?run=mine&run={other}", 404)


@pytest.mark.parametrize(
    "path",
    [
        "nobody",
        "..%2Fruns%2Fmine",
        ".hidden",
        "mine/steps/99",
        "mine/steps/x",
        "mine/groups/99",
        "mine/groups/5/episodes/6.0",
    ],
)
async def test_what_is_not_there_is_a_page_with_404(client, path):
    await read(client, f"/console/runs/{path}", 404)


async def test_a_tenant_without_a_folder_sees_no_runs_of_others(client):
    client.headers["X-API-Key"] = "eve-key"
    assert "No folder of runs is set up for the tenant eve" in await read(client, "/console/runs")
    await read(client, "/console/runs/mine", 404)


@pytest.fixture
def unreadable(root):
    """A folder that no user can read, root included, as another user's folder of mode 0700 for any other."""
    (root / "private").symlink_to("x" * 300)
    return "private"


async def test_a_folder_that_cannot_be_read_hides_no_other_and_is_named(client, unreadable):
    text = await read(client, "/console/runs")
    assert 'href="/console/runs/mine"' in text
    assert f"The user of the service cannot read 1 folder: {unreadable}." in text


@pytest.mark.parametrize("path", ["runs/private", "compare_runs?run=mine&run=private"])
async def test_the_page_of_a_run_that_cannot_be_read_says_so(client, unreadable, path):
    assert "cannot read the run private: File name too long" in await read(client, f"/console/{path}", 404)


async def test_a_folder_of_runs_that_cannot_be_read_is_not_one_without_runs(backend, root, unreadable):
    config = ServerConfig(api_keys=KEYS, console_runs={"ada": str(root / unreadable)})
    async with make_client(backend, config, {"X-API-Key": "ada-key"}) as client:
        assert "cannot read the folder of runs" in await read(client, "/console/runs")


async def test_a_folder_of_runs_that_does_not_exist_has_none_yet(backend, root):
    config = ServerConfig(api_keys=KEYS, console_runs={"ada": str(root / "later")})
    async with make_client(backend, config, {"X-API-Key": "ada-key"}) as client:
        assert "The folder has no runs yet." in await read(client, "/console/runs")
