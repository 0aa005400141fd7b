"""``sandbox-service doctor``: examine this machine, and say how to fix what is wrong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table
from rich.text import Text

from sandbox_service.config.reading import read_config
from service_cli.doctor.capabilities import UnknownCapabilityError, parse_required, with_required
from service_cli.doctor.examination import examine
from service_cli.doctor.findings import Status, as_json, worst
from service_cli.doctor.local_machine import LocalMachine

from .options import ConfigOption, JsonOption, OverridesArgument
from .terminal import FAILED, WRONG, explained, fail, notes, results, write_json

if TYPE_CHECKING:
    from service_cli.doctor.findings import MachineFinding


_STYLES = {Status.OK: "green", Status.WARNING: "yellow", Status.PROBLEM: "bold red"}


def doctor(
    overrides: OverridesArgument = None,
    config: ConfigOption = None,
    require: Annotated[
        str,
        typer.Option(
            metavar="NAMES",
            help="Capabilities whose absence is a problem, such as docker,gpu or the names of environments.",
        ),
    ] = "",
    strict: Annotated[bool, typer.Option("--strict", help="Exit with 1 for warnings as well.")] = False,
    as_json_: JsonOption = False,
) -> None:
    """Examine this machine for a service with this configuration, and say how to fix what is wrong.

    The checks change nothing: they start trial boxes, read the kernel's files, and connect to engine,
    database and cluster. Run it as the user of the service, on each node, before the first start and when
    something fails. Each finding is ok, a warning (the service runs, with less than it could have), or a
    problem (it does not start, or not as configured).

    Exit codes: 0 no problem, 1 a problem, or a warning with --strict, 2 wrong usage.

    Examples:

        sandbox-service doctor

        sandbox-service doctor --config service.toml --require docker,postgresql,appworld

        sandbox-service doctor --json | jq '.findings[] | select(.status != "ok")'
    """
    with explained():
        resolved = read_config(config, overrides or [])
    try:
        wanted = parse_required(require)
    except UnknownCapabilityError as error:
        raise fail(f"--require: {error}", WRONG) from error
    with notes().status("examining this machine ..."):
        findings = with_required(examine(resolved, LocalMachine()), wanted)
    status = worst(findings)
    if as_json_:
        write_json({"status": status.value, "findings": as_json(findings)})
    else:
        _show(findings)
    if status is Status.PROBLEM or (strict and status is Status.WARNING):
        raise typer.Exit(FAILED)


def _show(findings: Sequence[MachineFinding]) -> None:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, show_header=False)
    table.add_column(no_wrap=True)
    # The longest names are wrapped: most of the width belongs to the findings.
    table.add_column(max_width=24)
    table.add_column(overflow="fold")
    for finding in findings:
        text = Text(finding.found)
        if finding.fix:
            text.append(f"\nfix: {finding.fix}" if finding.status is not Status.OK else f"\n{finding.fix}")
            text.stylize("dim", len(finding.found))
        table.add_row(
            Text(finding.status.value, style=_STYLES[finding.status]),
            f"{finding.subject}: {finding.check}",
            text,
        )
    results().print(table)
    counts = Counter(finding.status for finding in findings)
    results().print(
        f"\n{len(findings)} findings: {counts[Status.PROBLEM]} problems, {counts[Status.WARNING]} warnings"
    )
