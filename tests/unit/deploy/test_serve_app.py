from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from deploy.serve_app import (
    APPLICATION,
    build_app,
    check_application,
    check_environments,
    fleet_name,
    service_url,
    with_absolute_paths,
)
from local_processes.readiness import NotReadyError
from local_processes.waiting import Deadline
from sandbox_service.config import ServiceConfig
from sandbox_service.errors import ServiceError


def config(**tree: object) -> ServiceConfig:
    return ServiceConfig.model_validate(tree)


def test_importing_the_composition_root_does_not_import_ray():
    code = "import deploy.serve_app, sys; sys.exit('ray' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=60).returncode == 0


@pytest.mark.parametrize("left_out", ["tls_certificate", "tls_key", "tls_authority"])
def test_tls_between_nodes_is_never_off_for_want_of_a_file(left_out: str):
    files = {name: f"/etc/{name}.pem" for name in ("tls_certificate", "tls_key", "tls_authority")}
    del files[left_out]
    with pytest.raises(ValueError, match=f"its three files; {left_out} not set"):
        config(fleet=files)


@pytest.mark.parametrize(
    ("tree", "why"),
    [
        ({"pools": {"cod": {}}}, "pools.cod: no environment 'cod'"),
        ({"pools": {"cod": {}}, "fleet": {"node_resource": "sandbox_node"}}, "pools.cod: no environment"),
        ({"environments": {"code": {"task_files": ["/nonexistent/mine.jsonl"]}}}, "/nonexistent/mine.jsonl"),
    ],
    ids=["a pool", "a pool of marked nodes", "a file of tasks"],
)
def test_a_deployment_is_refused_whose_supervisors_would_not_start(tree: dict[str, object], why: str):
    with pytest.raises(ServiceError, match=why):
        build_app(tree)


def test_a_node_that_gets_no_supervisor_need_not_have_packages_and_tasks():
    """The application may be built on the head, and only marked nodes have what supervisors need."""
    check_environments(
        config(
            fleet={"node_resource": "sandbox_node"},
            pools={"code": {}, "elsewhere": {}},
            environments={"enabled": ["code", "elsewhere"], "code": {"task_files": ["/srv/mine.jsonl"]}},
        )
    )


def test_services_of_different_ports_are_different_fleets():
    assert fleet_name(config(server={"port": 1})) != fleet_name(config(server={"port": 2}))
    assert fleet_name(config(fleet={"name": "mine"})) == "mine"


def test_paths_mean_the_same_in_every_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    settled = with_absolute_paths(
        config(
            server={"console_runs": {"local": "var/runs"}},
            store={"url": "sqlite:///var/t.sqlite"},
            sandbox={"state_dir": "state", "runsc": "./bin/runsc"},
            fleet={"tls_certificate": "a.pem", "tls_key": "tls/key.pem", "tls_authority": "ca.pem"},
            environments={
                "code": {"task_files": ["a.jsonl"], "mbpp_path": "mbpp.jsonl"},
                "webshop": {"data": "shop"},
            },
            agents={"packages": {"mine": "agent"}},
        )
    )
    assert settled.store.url == f"sqlite:///{tmp_path}/var/t.sqlite"
    assert settled.sandbox.state_dir == tmp_path / "state"
    assert settled.sandbox.runsc == f"{tmp_path}/bin/runsc"
    fleet = settled.fleet
    names = ("a.pem", "tls/key.pem", "ca.pem")
    assert (fleet.tls_certificate, fleet.tls_key, fleet.tls_authority) == tuple(
        tmp_path / name for name in names
    )
    assert settled.environments.code.task_files == (tmp_path / "a.jsonl",)
    assert settled.environments.code.mbpp_path == tmp_path / "mbpp.jsonl"
    assert settled.environments.webshop.data == tmp_path / "shop"
    assert settled.agents.packages == {"mine": tmp_path / "agent"}
    assert settled.server.console_runs == {"local": f"{tmp_path}/var/runs"}
    assert settled.server.model_fields_set == {"console_runs"}


def test_a_program_of_the_search_path_stays_a_name():
    assert with_absolute_paths(config(sandbox={"runsc": "runsc"})).sandbox.runsc == "runsc"


def test_the_file_of_a_store_is_found_behind_a_driver_and_before_options(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    given = config(store={"url": "sqlite+pysqlite:///var/t.sqlite?timeout=3"})
    assert with_absolute_paths(given).store.url == f"sqlite+pysqlite:///{tmp_path}/var/t.sqlite?timeout=3"


@pytest.mark.parametrize("url", ["sqlite:////var/t.sqlite", "postgresql+psycopg://host/db"])
def test_urls_without_a_relative_path_stay(url: str):
    assert with_absolute_paths(config(store={"url": url})).store.url == url


@pytest.mark.parametrize(
    ("host", "url"),
    [("127.0.0.1", "http://127.0.0.1:80"), ("0.0.0.0", "http://127.0.0.1:80"), ("::1", "http://[::1]:80")],
)
def test_the_url_is_how_this_machine_reaches_it(host: str, url: str):
    assert service_url(config(server={"host": host, "port": 80})) == url


@pytest.mark.parametrize("left_s", [1.5, -60.0])
def test_a_start_ends_although_the_controller_of_serve_does_not_answer(left_s: float):
    over = threading.Event()
    with pytest.raises(NotReadyError, match="controller did not answer within"):
        check_application(over.wait, Deadline.after(left_s))
    over.set()


def test_a_start_ends_as_soon_as_serve_gives_up_and_goes_on_while_it_deploys():
    def status_of(word: str) -> SimpleNamespace:
        application = SimpleNamespace(status=word, message="no module 'deploy'")
        return SimpleNamespace(applications={APPLICATION: application})

    check_application(lambda: SimpleNamespace(applications={}), Deadline.after(60))
    check_application(lambda: status_of("DEPLOYING"), Deadline.after(-1))
    with pytest.raises(NotReadyError, match="the gateway did not start: no module 'deploy'"):
        check_application(lambda: status_of("DEPLOY_FAILED"), Deadline.after(60))
