"""``docker/take_over.sh``, run in a root folder of its own with the machine's programs."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[3] / "docker/take_over.sh"
# On a file system of its own, with programs that are read-only: what the script changes is gone afterwards.
IMAGE = """
set -eu
cd "$1"
mount -t tmpfs none .
cd "$1"
mkdir -p usr etc tmp proc opt dev home "./$2"
for name in bin lib lib64 sbin; do ln -s "usr/$name" "$name"; done
mount --rbind /usr usr
mount -o remount,bind,ro usr
touch dev/null "./$2/main.py"
cp "$3" opt/take_over.sh
status=0
chroot . /bin/sh -c 'cd "$1" && exec sh /opt/take_over.sh' sh "$2" || status=$?
find app srv opt/task -name main.py 2>&- || true
exit $status
"""


@pytest.fixture
def take_over(tmp_path: Path):
    """Run the script in a working directory; return the status, the files afterwards, and what it says."""
    own = ["unshare", "--mount"]
    if shutil.which("unshare") is None or subprocess.run([*own, "true"], check=False).returncode:
        pytest.skip("mounts need root")

    def run(workdir: str) -> tuple[int, str, str]:
        command = [*own, "sh", "-c", IMAGE, "sh", str(tmp_path), workdir, str(SCRIPT)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
        return done.returncode, done.stdout, done.stderr

    return run


@pytest.mark.parametrize("workdir", ["/app", "/srv/project"])
def test_the_files_of_the_working_directory_are_put_aside(take_over, workdir: str) -> None:
    assert take_over(workdir) == (0, "opt/task/app/main.py\n", "")


def test_a_working_directory_below_app_is_refused_before_anything_is_moved(take_over) -> None:
    status, files, said = take_over("/app/src")
    assert (status, files) == (1, "app/src/main.py\n")
    assert "its working directory /app/src is below /app" in said
