import threading

import httpx
import pytest

from tests.harness.run_folder import write_run
from trainer.report.live import LiveReport, ReportServer
from trainer.report.page import render_report
from trainer.tracking.jsonl import JsonlTracker


@pytest.fixture
def served(tmp_path):
    """A server of the report of a run that may not have begun."""
    folder, made = tmp_path / "run", []

    def render(state):
        made.append(state)
        return render_report(folder, live=state)

    with ReportServer(LiveReport([folder], render), 0) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        with httpx.Client(base_url=server.url) as client:
            yield folder, client, made
        server.shutdown()
        thread.join()


def test_the_page_is_renewed_when_the_run_has_written_something_and_not_before(served):
    folder, client, made = served
    write_run(folder, steps=5)
    first = client.get("/").text
    state = client.get("/state").text
    assert f'<body data-live="{state}">' in first
    assert client.get("/").text == first
    assert len(made) == 1

    tracker = JsonlTracker(folder / "metrics.jsonl")
    tracker.log(15, {"reward/mean": 0.123, "time/update": 1.0})
    tracker.close()
    assert client.get("/state").text != state
    assert "<b>6</b><span>steps of reinforcement learning" in client.get("/").text
    assert len(made) == 2


def test_before_the_run_has_begun_the_page_says_so_and_looks_again(served):
    _, client, _ = served
    answer = client.get("/")
    assert answer.status_code == 503
    assert "is not the folder of a run" in answer.text
    assert answer.headers["refresh"]


def test_pages_of_elsewhere_cannot_read_it(served):
    folder, client, _ = served
    write_run(folder)
    assert client.get("/", headers={"Host": "evil.example:80"}).status_code == 403
    assert client.get("/run.json").status_code == 404


def test_a_written_page_asks_no_server(tmp_path):
    assert '<body data-live="">' in render_report(write_run(tmp_path / "run"))
