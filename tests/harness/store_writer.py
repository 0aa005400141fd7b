"""A process that writes events into a store as fast as it can: ``python -m tests.harness.store_writer URL``.

Event n goes to instance n modulo 4. After each flush it prints how many events are promised.
"""

from __future__ import annotations

import asyncio
import sys

from sandbox_service.config import StoreConfig
from sandbox_service.trajectories.store import open_store
from tests.harness.episodes import event, instance

INSTANCES = 4


async def write_for_ever(url: str) -> None:
    store = open_store(StoreConfig(url=url, batch_size=16, batch_interval_s=0.001))
    for number in range(INSTANCES):
        store.open_instance(instance(f"s1.{number}"))
    count = 0
    while True:
        for _ in range(50):
            store.append(event(f"s1.{count % INSTANCES}", count // INSTANCES, response=b"x" * 500))
            count += 1
        await asyncio.sleep(0)
        if count % 500 == 0:
            await store.flush()
            sys.stdout.write(f"{count}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(write_for_ever(sys.argv[1]))
