"""Measure an upgrade under load: nodes and gateways of a deployed service are replaced one after another.

Two raylets on this machine, each with a supervisor, process boxes and a replica of the gateway, over the
PostgreSQL server that ``SANDBOX_TEST_POSTGRES_URL`` names, in a database of the measurement's own. Clients
play episodes of echo through HTTP and count their steps. The yardstick is the same load before the upgrade.
Prints JSON; the exit code is 1 when an episode or an acknowledged step was lost, or a step executed twice.

    python -m tests.benchmarks.rolling_upgrade -o upgrade.json
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import sys
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path

import psycopg

from service_cli.bench.machine import describe_machine
from tests.harness.counted_steps import counted_load
from tests.harness.deployed_cluster import deployed_cluster
from tests.harness.rolling_upgrade import LOST, losses, roll, settings_of, start_two_nodes

CLIENTS = 8
STEPS = 50
UNDISTURBED_S = 20.0


@contextlib.contextmanager
def own_database(server: str) -> Iterator[str]:
    """Return the URL of an empty database while the block runs."""
    name = f"upgrade_{uuid.uuid4().hex}"
    with psycopg.connect(server.replace("+psycopg", ""), autocommit=True) as admin:
        admin.execute(f"CREATE DATABASE {name}")
        try:
            yield f"{server.rpartition('/')[0]}/{name}"
        finally:
            admin.execute(f"DROP DATABASE {name} WITH (FORCE)")


async def measure(url: str) -> dict[str, object]:
    """Upgrade a service once; return the figures of each part, and what all clients lost."""
    with deployed_cluster() as cluster:
        settings = settings_of(cluster, url)
        node = start_two_nodes(cluster, settings)
        async with counted_load(cluster.url, CLIENTS, STEPS) as toll:
            figures = await roll(cluster, node, settings, toll, UNDISTURBED_S)
    return {
        "machine": describe_machine(),
        "clients": CLIENTS,
        "parts": figures,
        **losses(toll),
    }


def report(found: Mapping[str, object], output: Path | None) -> int:
    """Print figures, and write them to a file; return the exit code: 1 when something was lost."""
    text = json.dumps(found, indent=2) + "\n"
    sys.stdout.write(text)
    if output:
        output.write_text(text)
    return int(any(found[name] for name in LOST))


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("-o", "--output", type=Path)
    given = parser.parse_args()
    with own_database(os.environ["SANDBOX_TEST_POSTGRES_URL"]) as url:
        found = asyncio.run(measure(url))
    return report(found, given.output)


if __name__ == "__main__":
    sys.exit(main())
