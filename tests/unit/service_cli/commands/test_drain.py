from __future__ import annotations

from typer.testing import CliRunner

from service_cli.commands.app import build_cli


def test_a_node_is_not_given_back_and_replaced_at_once():
    done = CliRunner().invoke(build_cli(), ["drain", "worker-7", "--cancel", "--replace"])
    assert done.exit_code == 2
    assert "--cancel and --replace exclude each other" in done.stderr
