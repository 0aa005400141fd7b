"""A node of a Ray cluster behind a network link of its own, which a test can cut and join again.

The node's processes run in a network namespace. Unix sockets are reached by path, so that a database which
listens on one is still reached while the link is cut.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

OUTSIDE, INSIDE = "10.213.7.1", "10.213.7.2"
STOP_S = 60.0


@dataclass(frozen=True, slots=True)
class CutOffNode:
    """The node, and its link to the others."""

    link: str
    """The link's end on the side of the others."""
    address: str
    """IP address of the node."""

    def cut(self) -> None:
        """Drop all packets between the node and the others; neither side learns of it."""
        _run("ip", "link", "set", self.link, "down")

    def join(self) -> None:
        """Let packets through again."""
        _run("ip", "link", "set", self.link, "up")


def namespaces_work() -> bool:
    """Whether this machine has the program ``ip`` and lets the tests make network namespaces."""
    name = f"probe-{secrets.token_hex(4)}"
    if os.geteuid() != 0 or shutil.which("ip") is None:
        return False
    if subprocess.run(["ip", "netns", "add", name], capture_output=True, check=False).returncode:
        return False
    _run("ip", "netns", "del", name)
    return True


@contextlib.contextmanager
def cut_off_node(cluster: str) -> Iterator[CutOffNode]:
    """Start a node of the Ray cluster at this address, and end it with the block."""
    name = f"node{secrets.token_hex(3)}"
    inside = ["ip", "-n", name]
    _run("ip", "netns", "add", name)
    try:
        _run("ip", "link", "add", name, "type", "veth", "peer", "name", "uplink", "netns", name)
        _run("ip", "addr", "add", f"{OUTSIDE}/30", "dev", name)
        _run("ip", "link", "set", name, "up")
        _run(*inside, "addr", "add", f"{INSIDE}/30", "dev", "uplink")
        _run(*inside, "link", "set", "uplink", "up")
        _run(*inside, "link", "set", "lo", "up")
        _run(*inside, "route", "add", "default", "via", OUTSIDE)
        ray = str(Path(sys.executable).with_name("ray"))
        start = [ray, "start", f"--address={cluster}", f"--node-ip-address={INSIDE}", "--block"]
        start += ["--num-cpus=1", "--object-store-memory=83886080", "--disable-usage-stats"]
        with subprocess.Popen(["ip", "netns", "exec", name, *start], stdout=subprocess.DEVNULL) as process:
            try:
                yield CutOffNode(name, INSIDE)
            finally:
                process.terminate()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(STOP_S)
    finally:
        _end(name)


def _end(name: str) -> None:
    """Kill what is left in the namespace, and remove it with its link."""
    listed = subprocess.run(["ip", "netns", "pids", name], capture_output=True, text=True, check=False)
    for pid in listed.stdout.split():
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(pid), 9)
    subprocess.run(["ip", "link", "del", name], capture_output=True, check=False)
    _run("ip", "netns", "del", name)


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True)
