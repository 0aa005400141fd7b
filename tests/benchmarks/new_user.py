"""Type every command of README and quickstart in a clean clone, as a new user would, and time each.

    python -m tests.benchmarks.new_user -o new-user.json
    python -m tests.benchmarks.new_user --leave-out 'make test' 'openai:' 'name=mine'

The clone is of the last commit, and is removed afterwards. A service that a page starts runs until the page
ends, or until it starts another. The exit status is 0 only if every command's was.
"""

import argparse
import json
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from threading import Timer

from local_processes.prctl import end_with_parent
from service_cli.bench.machine import describe_machine
from tests.harness.documentation import ROOT, blocks, commands

PAGES = ("README.md", "docs/quickstart.md")
SERVES = "sandbox-service serve"
READY = "ready: "
COMMAND_S = 7200.0
START_S = 600.0
STOP_S = 120.0
TAIL = 5
SETTINGS = "[pool]\nmax_boxes = 4\n"
"""The file ``service.toml``, which the quickstart mentions."""


def main() -> int:
    """Run them, and print a line for each and their JSON."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--leave-out", nargs="*", default=["make test", "openai:"], help="commands with one of these texts"
    )
    parser.add_argument("--output", "-o", type=Path, help="write the JSON to this file, too")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="new-user-") as folder:
        clone = Path(folder) / "main"
        subprocess.run(["git", "clone", "-q", str(ROOT), str(clone)], check=True)
        (clone / "service.toml").write_text(SETTINGS, encoding="utf-8")
        found = list(typed(clone, options.leave_out))
    report = {"machine": describe_machine(), "commands": found, "took_s": round(time.monotonic() - began)}
    text = json.dumps({"benchmark": "new user", **report}, indent=2) + "\n"
    sys.stdout.write(text)
    if options.output is not None:
        options.output.write_text(text, encoding="utf-8")
    return 0 if all(each.get("exit", 0) == 0 for each in found) else 1


def typed(clone: Path, left_out: Sequence[str]) -> Iterator[dict[str, object]]:
    """Yield page, command, seconds and exit status of each command; why it was left out in place of both."""
    environment = {**os.environ, "PATH": f"{clone / '.venv/bin'}:{os.environ['PATH']}"}
    for page in PAGES:
        service: subprocess.Popen[str] | None = None
        try:
            for block in (each for each in blocks() if each.page == page and each.language == "sh"):
                for command in map(shlex.join, commands(block)):
                    row: dict[str, object] = {"page": page, "command": command}
                    if block.marked or any(text in command for text in left_out):
                        yield {**row, "left_out": block.note or "by --leave-out"}
                        continue
                    began = time.monotonic()
                    if SERVES in command:
                        _stop(service)
                        service, url = _start(command, clone, environment)
                        environment["SANDBOX_SERVER"] = url
                        status = 0 if url else 1
                    else:
                        status = _run(command, clone, environment)
                    row |= {"seconds": round(time.monotonic() - began, 1), "exit": status}
                    sys.stderr.write(f"{row['seconds']:>8} s  exit {status}  {command}\n")
                    yield row
        finally:
            _stop(service)


def _run(command: str, clone: Path, environment: Mapping[str, str]) -> int:
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=clone,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=COMMAND_S,
        check=False,
    )
    if done.returncode:
        sys.stderr.write("\n".join((done.stdout + done.stderr).splitlines()[-TAIL:]) + "\n")
    return done.returncode


def _start(
    command: str, clone: Path, environment: Mapping[str, str]
) -> tuple[subprocess.Popen[str] | None, str]:
    """Return the service and its address when it is ready; None and an empty one if it ended before."""
    process = subprocess.Popen(
        ["bash", "-c", f"exec {command}"],
        cwd=clone,
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=end_with_parent,
    )
    assert process.stdout is not None
    late = Timer(START_S, process.terminate)
    late.start()
    try:
        for line in process.stdout:
            if line.startswith(READY):
                return process, line.removeprefix(READY).split()[0]
    finally:
        late.cancel()
    process.wait()
    return None, ""


def _stop(process: subprocess.Popen[str] | None) -> None:
    if process is not None and process.poll() is None:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=STOP_S)


if __name__ == "__main__":
    raise SystemExit(main())
