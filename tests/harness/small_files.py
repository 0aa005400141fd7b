"""A process whose files may not grow: ``python -m tests.harness.small_files URL``.

Appends until the store refuses, prints how many events it took, lets files grow again, appends one more
and prints how many events the store holds.
"""

from __future__ import annotations

import asyncio
import resource
import signal
import sys

from sandbox_service.config import StoreConfig
from sandbox_service.errors import ServiceError
from sandbox_service.trajectories.store import open_store
from tests.harness.episodes import event, instance

LIMIT = 256 * 1024


async def fill(url: str) -> None:
    store = open_store(StoreConfig(url=url, batch_size=8, batch_interval_s=0.001, max_failing_s=0.2))
    store.open_instance(instance())
    await store.flush()
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (LIMIT, resource.RLIM_INFINITY))
    count = 0
    try:
        while True:
            store.append(event(sequence=count, response=b"x" * 4096))
            count += 1
            await asyncio.sleep(0.002)
    except ServiceError as error:
        sys.stdout.write(f"{error.code.value} {count}\n")
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    await store.flush()
    store.append(event(sequence=count))
    events = await store.events("s1.a")
    assert [one.sequence for one in events] == list(range(count + 1))
    sys.stdout.write(f"{len(events)}\n")
    await store.close()


if __name__ == "__main__":
    asyncio.run(fill(sys.argv[1]))
