"""The environment of the service's cluster."""

import os
import subprocess
import sys

from deploy.ray_cluster import _variables
from sandbox_service.config import ServiceConfig

READ = "from ray.serve._private.constants import PROXY_READY_CHECK_TIMEOUT_S as found; print(found)"


def test_serve_gives_a_front_a_minute_to_start(tmp_path):
    variables = _variables(ServiceConfig(), tmp_path)
    run = [sys.executable, "-c", READ]
    said = subprocess.run(run, env=os.environ | variables, capture_output=True, text=True, check=True)
    assert float(said.stdout) == 60.0
