import subprocess
from pathlib import Path

from sandbox_service.environments.harbor.service.solution import solving_command
from sandbox_service.environments.harbor.service.task_files import TaskFile


def test_folders_with_spaces_are_made_and_no_others(tmp_path: Path) -> None:
    work, solution = tmp_path / "app", tmp_path / "solution"
    work.mkdir()
    files = {
        "solve.sh": TaskFile(f"cat '{solution}/my data/x.txt'".encode(), executable=False),
        "my data/x.txt": TaskFile(b"hello", executable=False),
    }
    command = solving_command(files, {}).replace("/solution", str(solution))
    done = subprocess.run(["bash", "-c", command], cwd=work, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "hello", "")
    assert list(work.iterdir()) == []
