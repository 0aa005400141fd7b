from __future__ import annotations

import stat
import subprocess
import sys
from pathlib import Path

import pytest

from deploy import haproxy_guard
from deploy.haproxy_guard import rewrite
from tests.harness.waiting import wait_until

# The shape of what Ray Serve 2.60 writes.
CONFIG = """global
    # Access/event log at `info`.
    log 127.0.0.1:514 local0 info
    stats socket /tmp/x/admin.sock mode 666 level admin expose-fd listeners
    maxconn 4096
defaults
    mode http
    log global
    errorfile 502 /tmp/x/500.http
    errorfile 503 /tmp/x/500.http
frontend prometheus
    bind :9101
    mode http
    no log
frontend http_frontend
    bind 127.0.0.1:8080
    # Routes endpoint
    acl routes path -i /-/routes
    http-request set-log-level debug if routes
    http-request return status 200 content-type application/json string "{}" if routes
    default_backend default_backend
backend default_backend
    http-request return status 404 content-type text/plain lf-string "Path not found."
backend gateway
    server r1 127.0.0.1:30000 check
listen stats
  bind *:8404
  stats enable
"""


def test_only_the_front_listens():
    binds = [line.split() for line in rewrite(CONFIG, "/answers").splitlines() if "bind" in line.split()]
    assert binds == [["bind", "127.0.0.1:8080"]]


def test_the_rest_of_the_configuration_stays():
    lines = rewrite(CONFIG, "/answers").splitlines()
    for line in ("    maxconn 4096", "    mode http", "    server r1 127.0.0.1:30000 check"):
        assert line in lines


def test_administration_is_for_this_user_and_nothing_is_logged_elsewhere():
    text = rewrite(CONFIG, "/answers")
    assert "admin.sock mode 600 level admin" in text
    assert "514" not in text


def test_answers_for_a_missing_replica_are_problems():
    text = rewrite(CONFIG, "/answers")
    assert "errorfile 502 /answers/502.http" in text
    assert "errorfile 503 /answers/503.http" in text
    assert "500.http" in text
    assert "/tmp/x/500.http" not in text


def test_plain_text_of_serve_is_replaced_in_the_front_alone():
    lines = [line.strip() for line in rewrite(CONFIG, "/answers").splitlines()]
    rule = "http-response return errorfile /answers/502.http if { status 500 } { res.hdr(content-type) -m beg"
    assert [line.startswith(rule) for line in lines].count(True) == 1
    assert lines.index("frontend http_frontend") < next(n for n, line in enumerate(lines) if rule in line)


def test_paths_are_not_unknown_before_the_gateway_is_up_and_applications_are_not_named():
    text = rewrite(CONFIG, "/answers")
    assert "not found" not in text
    assert "routes" not in [word for line in text.splitlines() if "#" not in line for word in line.split()]


def test_one_address_holds_a_part_of_the_connections_beyond_loopback_only():
    assert "conn_cur" not in rewrite(CONFIG, "/answers")
    text = rewrite(CONFIG.replace("bind 127.0.0.1:8080", "bind 0.0.0.0:8080"), "/answers")
    assert "reject if { sc0_conn_cur gt 3072 }" in text


@pytest.mark.parametrize(
    ("host", "bind"),
    [("::", ["bind", ":::8080", "v4v6"]), ("0.0.0.0", ["bind", "*:8080"])],
    ids=["both families", "IPv4"],
)
def test_all_addresses_are_those_of_the_family_in_the_settings(host: str, bind: list[str]):
    """Serve writes the same for both."""
    text = rewrite(CONFIG.replace("bind 127.0.0.1:8080", "bind *:8080"), "/answers", host)
    assert bind in [line.split() for line in text.splitlines()]
    assert "conn_cur" in text
    assert rewrite(text, "/answers", host) == text


@pytest.mark.parametrize(
    ("bind", "replica"),
    [
        ("127.0.0.1:8080", "127.0.0.1:30000"),
        ("*:8080", "127.0.0.1:30000"),
        ("localhost:8080", "127.0.0.1:30000"),
        ("192.0.2.2:8080", "192.0.2.2:30000"),
        ("::1:8080", "[::1]:30000"),
    ],
)
def test_replicas_of_this_node_are_looked_for_where_they_listen(bind: str, replica: str):
    """They listen on the front's address alone; those of other nodes have addresses of their own."""
    far = "    server r2 192.0.2.7:30000 check\n"
    given = CONFIG.replace("127.0.0.1:8080", bind).replace("listen stats", far + "listen stats")
    lines = rewrite(given, "/answers").splitlines()
    assert f"    server r1 {replica} check" in lines
    assert far.rstrip() in lines


def test_a_door_that_nobody_knows_stops_the_start():
    with pytest.raises(ValueError, match="debug"):
        rewrite(CONFIG + "listen debug\n  bind *:9999\n", "/answers")


def test_rewriting_twice_changes_nothing():
    once = rewrite(CONFIG, "/answers")
    assert rewrite(once, "/answers") == once


def test_it_becomes_the_binary_with_the_arguments_it_was_given(tmp_path: Path):
    config = tmp_path / "haproxy.cfg"
    config.write_text(CONFIG)
    binary = tmp_path / "binary"
    binary.write_text('#!/bin/sh\necho "$@"\ncat "$3"\n')
    binary.chmod(stat.S_IRWXU)
    guard = [sys.executable, "-I", "-S", haproxy_guard.__file__, str(binary), "/answers", "127.0.0.1"]
    arguments = ["-db", "-f", str(config), "-sf", "1"]
    done = subprocess.run([*guard, *arguments], capture_output=True, text=True, check=True, timeout=30)
    first, _, rest = done.stdout.partition("\n")
    assert first.split() == arguments
    assert rest == rewrite(CONFIG, "/answers")


def test_the_binary_ends_with_the_process_that_started_it(tmp_path: Path):
    config = tmp_path / "haproxy.cfg"
    config.write_text(CONFIG)
    binary = tmp_path / "binary"
    binary.write_text('#!/bin/sh\necho $$ > "$3.pid"; exec sleep 600\n')
    binary.chmod(stat.S_IRWXU)
    guard = [sys.executable, "-I", "-S", haproxy_guard.__file__, str(binary), "/answers", "127.0.0.1"]
    starter = (
        "import subprocess,sys,time;subprocess.Popen(sys.argv[1:]);\n"
        "from pathlib import Path\n"
        f"path=Path({str(config) + '.pid'!r})\n"
        "while not path.exists() or not path.read_text().strip(): time.sleep(0.01)\n"
    )
    subprocess.run([sys.executable, "-c", starter, *guard, "-db", "-f", str(config)], check=True, timeout=30)
    pid = int(Path(f"{config}.pid").read_text())
    wait_until(lambda: not _runs(pid))


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
