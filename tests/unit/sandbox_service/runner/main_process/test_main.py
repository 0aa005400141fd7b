"""The runner's own imports, which all processes of a box share in memory."""

import json
import subprocess

from tests.harness.runner_box import INTERPRETER, code_root

CODE = "sandbox_service.environments.code.box.world"
LOOK = (
    "import sys, json; sys.path.insert(0, sys.argv[1]);"
    f" import sandbox_service.runner.main_process.main, {CODE};"
    " print(json.dumps(sorted(sys.modules)))"
)


def test_a_fork_of_the_runner_runs_no_code_of_modules_and_loads_no_openssl():
    """Each of these makes every process of an idle box touch memory that the forks would share."""
    looked = subprocess.run(
        [INTERPRETER, "-I", "-S", "-B", "-c", LOOK, code_root()], capture_output=True, check=True, timeout=60
    )
    assert {"threading", "random", "_hashlib"}.isdisjoint(json.loads(looked.stdout))
