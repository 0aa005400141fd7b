"""The sandbox service of a run: one that is there already."""

from pathlib import Path

import pytest

from tests.harness.probed_server import probed_server, set_dead_proxy
from trainer.config.rollout import SandboxServiceConfig
from trainer.errors import ServiceUnavailable
from trainer.launch.service import sandbox_service


def test_a_ready_service_is_used_in_spite_of_a_proxy_which_its_clients_do_not_ask_either(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_dead_proxy(monkeypatch)
    with probed_server() as port:
        settings = SandboxServiceConfig(url=f"http://127.0.0.1:{port}/", start_timeout_s=0.01)
        with sandbox_service(settings, ["code"], tmp_path) as url:
            assert url == settings.url


def test_a_service_that_is_not_ready_is_unavailable_with_its_last_answer(tmp_path: Path) -> None:
    with probed_server(*[503] * 100) as port:
        settings = SandboxServiceConfig(url=f"http://127.0.0.1:{port}", start_timeout_s=0.01)
        unavailable = pytest.raises(
            ServiceUnavailable, match=r"no sandbox service is ready at .* \(HTTP 503: warming up\)"
        )
        with unavailable, sandbox_service(settings, ["code"], tmp_path):
            pass


def test_the_wait_for_a_service_names_its_last_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("local_processes.wait_report.EVERY_S", 0.001)
    with probed_server(*[503] * 2) as port:
        settings = SandboxServiceConfig(url=f"http://127.0.0.1:{port}", start_timeout_s=180)
        with sandbox_service(settings, ["code"], tmp_path):
            pass
    assert f"waiting for {settings.url} (HTTP 503: warming up), at most 180 s" in caplog.text
