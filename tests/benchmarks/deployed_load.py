"""Play counted episodes of echo against any running service, such as one that is being upgraded.

    SANDBOX_API_KEY=... python -m tests.benchmarks.deployed_load --url http://127.0.0.1:8080 --seconds 240

Clients number their steps and repeat calls under their keys, and compare what the world has heard with what
was answered. The service needs `environments.enabled` with echo. Prints JSON: episodes, steps, what was lost,
and the longest time that a client waited for the outcome of a call. The exit code is 1 when an episode or an
answered step was lost, or a step executed twice.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
from dataclasses import asdict

from tests.harness.counted_steps import Toll, counted_load


async def play(options: argparse.Namespace) -> Toll:
    """Play for a while; progress goes to standard error every 10 s."""
    key = os.environ.get("SANDBOX_API_KEY", "")
    async with counted_load(options.url, options.clients, options.steps, key) as toll:
        left_s = options.seconds
        while left_s > 0:
            await asyncio.sleep(min(10.0, left_s))
            left_s -= 10.0
            sys.stderr.write(f"{toll.episodes} episodes, {toll.acknowledged} steps, {dict(toll.told)}\n")
    return toll


def main() -> int:
    """Play, and print JSON."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--url", required=True)
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--steps", type=int, default=50, help="of an episode")
    toll = asyncio.run(play(parser.parse_args()))
    sys.stdout.write(json.dumps(asdict(toll), indent=2) + "\n")
    return int(bool(toll.lost or toll.told or toll.silent_gaps or toll.double_executions))


if __name__ == "__main__":
    sys.exit(main())
