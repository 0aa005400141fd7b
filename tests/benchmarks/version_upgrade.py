"""Measure an upgrade from an earlier version under load: another version takes over the store of the first.

The former version is a commit of this repository, unpacked and run with the packages that are installed
here. It serves on this machine with process boxes, is stopped as docs/operations.md says, and the version of
this checkout is started with the same store and port, and upgrades the store's tables where they changed.
Clients play episodes of echo through HTTP all the time and count their steps. The yardstick is the same load
before the upgrade. Prints JSON; the exit code is 1 when an episode or an acknowledged step was lost, or a
step executed twice.

    python -m tests.benchmarks.version_upgrade --former v0.1.0 -o upgrade.json

With ``--postgresql`` the store is a database of its own on the server of ``SANDBOX_TEST_POSTGRES_URL``.
"""

from __future__ import annotations

import argparse
import asyncio
import io
import os
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from pathlib import Path

import httpx
import sqlalchemy as sa

from local_processes.ports import free_port
from service_cli.bench.machine import describe_machine
from tests.benchmarks.rolling_upgrade import own_database, report
from tests.harness.counted_steps import counted_load
from tests.harness.rolling_upgrade import UNDISTURBED, Figures, losses, measured, some_more

REPOSITORY = Path(__file__).parents[2]
CLIENTS = 8
STEPS = 50
UNDISTURBED_S = 20.0
START_S = 240.0
END_S = 120.0


class Service:
    """A service of one checkout, in processes of its own."""

    def __init__(self, checkout: Path, words: list[str], log: Path) -> None:
        """``words``: its settings; ``log``: the file to which its output is added."""
        path = os.pathsep.join(str(each) for each in (checkout, checkout / "clients"))
        command = [sys.executable, "-c", "from service_cli.commands.app import main; main()", "serve", *words]
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                command,
                cwd=checkout,
                env={**os.environ, "PYTHONPATH": path},
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    async def wait_ready(self, url: str) -> None:
        """Wait until it serves. Raises RuntimeError when it ends, TimeoutError when it takes too long."""
        async with asyncio.timeout(START_S), httpx.AsyncClient(base_url=url) as http:
            while not await _ready(http):
                if self._process.poll() is not None:
                    raise RuntimeError(f"the service ended with {self._process.returncode}")
                await asyncio.sleep(0.2)

    def stop(self) -> None:
        """End it as an operator does. Raises RuntimeError when it does not end well."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
        if code := self._process.wait(END_S):
            raise RuntimeError(f"the service ended with {code}")


async def _ready(http: httpx.AsyncClient) -> bool:
    try:
        return (await http.get("/readyz")).status_code == 200
    except httpx.TransportError:
        return False


@asynccontextmanager
async def served(checkout: Path, words: list[str], log: Path, url: str) -> AsyncIterator[Service]:
    """Serve while the block runs, or until it stops the service."""
    service = Service(checkout, words, log)
    try:
        await service.wait_ready(url)
        yield service
    finally:
        await asyncio.to_thread(service.stop)


def unpack(commit: str, folder: Path) -> None:
    """Write the files of a commit to a folder."""
    done = subprocess.run(
        ["git", "archive", "--format=tar", commit], cwd=REPOSITORY, check=True, stdout=subprocess.PIPE
    )
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
        archive.extractall(folder, filter="data")


def commit_of(name: str) -> str:
    """Return a commit's number, shortened."""
    command = ["git", "rev-parse", "--short", f"{name}^{{commit}}"]
    return subprocess.run(
        command, cwd=REPOSITORY, check=True, stdout=subprocess.PIPE, text=True
    ).stdout.strip()


def revision(store: str) -> str:
    """Return the revision of a store's tables."""
    engine = sa.create_engine(store)
    with engine.connect() as connection:
        found = str(connection.execute(sa.text("SELECT version_num FROM trajectory_revision")).scalar_one())
    engine.dispose()
    return found


async def measure(former: Path, folder: Path, store: str) -> dict[str, object]:
    """Upgrade a service once; return the figures of each part, and what all clients lost."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    words = [
        f"server.port={port}",
        "sandbox.kind=process",
        f"sandbox.state_dir={folder / 'state'}",
        f"store.url={store}",
        "pool.min_boxes=0",
        "pool.max_boxes=2",
        'environments.enabled=["echo"]',
    ]
    log = folder / "services.log"
    figures: Figures = {}
    async with AsyncExitStack() as services:
        first = await services.enter_async_context(served(former, words, log, url))
        revisions = [await asyncio.to_thread(revision, store)]
        async with counted_load(url, CLIENTS, STEPS) as toll:
            async with measured(UNDISTURBED, toll, figures):
                await asyncio.sleep(UNDISTURBED_S)
            async with measured("upgrade", toll, figures):
                began = time.monotonic()
                await asyncio.to_thread(first.stop)
                stopped_s = time.monotonic() - began
                await services.enter_async_context(served(REPOSITORY, words, log, url))
                ready_s = time.monotonic() - began
                await some_more(toll)
            async with measured("undisturbed, next version", toll, figures):
                await asyncio.sleep(UNDISTURBED_S)
        revisions.append(await asyncio.to_thread(revision, store))
    return {
        "machine": describe_machine(),
        "clients": CLIENTS,
        "store": store.partition(":")[0],
        "store_revisions": revisions,
        "stopped_after_s": round(stopped_s, 1),
        "ready_after_s": round(ready_s, 1),
        "parts": figures,
        **losses(toll),
    }


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--former", required=True, help="commit of the former version")
    parser.add_argument("--postgresql", action="store_true", help="store in PostgreSQL; default: SQLite")
    parser.add_argument("-o", "--output", type=Path)
    given = parser.parse_args()
    with ExitStack() as owned:
        folder = Path(owned.enter_context(tempfile.TemporaryDirectory(prefix="upgrade-")))
        store = f"sqlite:///{folder}/trajectories.sqlite"
        if given.postgresql:
            store = owned.enter_context(own_database(os.environ["SANDBOX_TEST_POSTGRES_URL"]))
        former = folder / "former"
        unpack(given.former, former)
        commits = {"former": commit_of(given.former), "next": commit_of("HEAD")}
        found = {**commits, **asyncio.run(measure(former, folder, store))}
    return report(found, given.output)


if __name__ == "__main__":
    sys.exit(main())
