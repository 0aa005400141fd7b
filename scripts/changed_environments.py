"""Print the environments whose code a branch changes: ``python scripts/changed_environments.py [BASE]``.

The changes are those since the merge base with BASE (``origin/main`` unless given), also uncommitted ones and
new files; on BASE itself, those of the last commit. Where BASE or the history up to it is missing, the last
commit counts as well, and in a clone of one commit two names that change with it: all of them would take CI
hours. The exit status is then 1, and the reason is printed.

CI runs the conformance suite on Docker for these environments, in addition to the representative ones.
Changes of the runner, of sandboxes and of images print no environment: they affect all alike, and the
representative ones find what they break.

With ``--parts`` the names are those of ``tests/harness/sampling.py``: agents in ``examples``, and suites of
which each run plays a sample only.
"""

from __future__ import annotations

import random
import re
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
ENVIRONMENTS = Path("sandbox_service/environments")
SAMPLED = 2
"""Names that stand for the changed ones where nothing can be compared; CI has the time for so many."""
_SHARED = re.compile(r"sandbox_service/environments/shared/(?:box|service)/(\w+)\.py")
_OWN = re.compile(r"(?:sandbox_service/environments|tests/unit/sandbox_service/environments)/(\w+)/.+")
_IMAGE = re.compile(r"docker/(\w+)\.Dockerfile")
_EXAMPLE = re.compile(r"examples/(\w+)/.+")
_PARTS = {
    "agents": re.compile(r"trainer/(?:agents|model_gateway)/.+|clients/sandbox_client/\w*agent\w*\.py"),
    "bench": re.compile(r"service_cli/bench/.+"),
    "clusters": re.compile(r"deploy/\w+\.(?:py|yaml)|sandbox_service/fleet/\w+\.py"),
    "counterparts": re.compile(
        r"trainer/(?:rollout/(?:counterparts|episode|episode_steps)|reward/sides|config/counterpart)\.py"
    ),
    "documented_runs": re.compile(
        r"docs/trainer/(?:configuration|recipes)\.md|trainer/(?:config|launch|tasks|sft)/.+"
    ),
    "evolve": re.compile(
        r"trainer/(?:evolve|batches|launch|recorded)/.+|deploy/runs/(?:evolve_cpu|cpu_demo)\.toml"
    ),
    "frameworks": re.compile(r"clients/.+|examples/adapters/.+|sandbox_contract/.+"),
    "gvisor": re.compile(r"sandbox_service/sandboxes/(?:gvisor|oci_bundle|runsc)\.py"),
    "killed_runs": re.compile(
        r"trainer/agents/.+|trainer/batches/(?:journal|replay|ledger|group_source)\.py"
    ),
    "placement": re.compile(r"trainer/engines/gpu_shares\.py|trainer/launch/(?:fit|shared_workers)\.py"),
    "plugins": re.compile(r"pyproject\.toml|(?:sandbox_plugins|sandbox_conformance)/.+|trainer/plugins\.py"),
    "project_images": re.compile(
        r"docker/(?:base|gvisor|service)\.Dockerfile|scripts/(?:project_image\.py|runsc\.sh)|"
        r"sandbox_service/sandboxes/(?:root_folder|runsc|oci_bundle)\.py"
    ),
    "ranks": re.compile(r"trainer/update/.+"),
    "scaling": re.compile(r"sandbox_service/fleet/scal\w+\.py"),
    "serve": re.compile(r"deploy/\w+\.py|local_processes/.+|service_cli/commands/\w+\.py"),
}
"""A suite's name to the product's files that it tests; a change of its own files is tried by hand."""


def environments(root: Path) -> list[str]:
    """Return the names of all environments."""
    return sorted(
        path.parent.name for path in (root / ENVIRONMENTS).glob("*/box") if path.parent.name != "shared"
    )


def affected(paths: Iterable[str], root: Path) -> list[str]:
    """Return the environments that the files belong to, and for a shared file one that imports it."""
    names = set(environments(root))
    found = set()
    for path in paths:
        if shared := _SHARED.fullmatch(path):
            users = [name for name in names if _imports(root / ENVIRONMENTS / name, shared[1])]
            # The last, since the first by name, alfworld, is set up nowhere by default.
            found |= {max(users)} if users else set()
        elif own := _OWN.fullmatch(path) or _IMAGE.fullmatch(path):
            found |= names & {own[1]}
    return sorted(found)


def agents(root: Path) -> set[str]:
    """Return the names of the agents of ``examples``."""
    return {file.parent.name for file in (root / "examples").glob("*/requirements.txt")}


def parts(root: Path) -> list[str]:
    """Return the agents of ``examples`` and the names of all sampled suites."""
    return sorted(agents(root) | _PARTS.keys())


def affected_parts(paths: Iterable[str], root: Path) -> list[str]:
    """Return the agents of ``examples`` and the sampled suites that the files belong to."""
    names = agents(root)
    found = set()
    for path in paths:
        if own := _EXAMPLE.fullmatch(path):
            found |= names & {own[1]}
        found |= {name for name, files in _PARTS.items() if files.fullmatch(path)}
    return sorted(found)


def _imports(folder: Path, shared_module: str) -> bool:
    imports = re.compile(rf"\bshared\.(?:box|service)(?:\.| import .*\b){shared_module}\b")
    return any(imports.search(path.read_text(encoding="utf-8")) for path in folder.rglob("*.py"))


def changed_paths(root: Path, base: str) -> list[str]:
    """Return the files changed since the merge base with ``base``. Raises CalledProcessError without one."""
    since = _git(root, "merge-base", "HEAD", base)
    return changed_since(root, "HEAD^" if since == _git(root, "rev-parse", "HEAD") else since)


def changed_since(root: Path, commit: str) -> list[str]:
    """Return the files changed since a commit, with those that git does not know yet."""
    listed = (
        _git(root, "diff", "--name-only", commit),
        _git(root, "ls-files", "--others", "--exclude-standard"),
    )
    return [path for lines in listed for path in lines.splitlines()]


def sample(names: Sequence[str], commit: str) -> list[str]:
    """Return at most SAMPLED of the names, which differ from commit to commit."""
    return sorted(random.Random(commit).sample(names, min(SAMPLED, len(names))))


def _git(root: Path, *words: str) -> str:
    done = subprocess.run(["git", *words], cwd=root, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def main(words: list[str], root: Path = ROOT) -> int:
    """Print the names in one line; the exit status is 1 where the comparison failed."""
    find, every = (affected_parts, parts) if "--parts" in words else (affected, environments)
    base = next((word for word in words if word != "--parts"), "origin/main")
    try:
        names = find(changed_paths(root, base), root)
    except (subprocess.CalledProcessError, OSError) as error:
        reason = getattr(error, "stderr", "") or str(error)
    else:
        print(*names)
        return 0
    try:
        names, instead = find(changed_since(root, "HEAD^"), root), "changes of the last commit"
    except (subprocess.CalledProcessError, OSError):
        names, instead = sample(every(root), _commit(root)), f"a sample of {SAMPLED} names"
    print(*names)
    print(
        f"WARNING: cannot compare with {base} ({reason.strip()}); taken instead: {instead}. "
        "Fetch it with its history, or name another",
        file=sys.stderr,
    )
    return 1


def _commit(root: Path) -> str:
    try:
        return _git(root, "rev-parse", "HEAD")
    except (subprocess.CalledProcessError, OSError):
        return ""


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
