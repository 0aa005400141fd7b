r"""Entry of the runner: forks the launcher while memory is pristine, then serves.

    python3 -I -c "import sys; sys.path.insert(0, sys.argv.pop(1)); \
        from sandbox_service.runner.main_process.main import main; main()" PATH SOCKET
"""

from __future__ import annotations

import gc
import os
import signal
import sys

from sandbox_service.runner.io import message_socket
from sandbox_service.runner.kernel import privileges
from sandbox_service.runner.kernel.fork_exit import run_and_exit
from sandbox_service.runner.launcher.launcher import run_launcher

from .server import Server


def main() -> None:
    """Run a box's runner on the socket path that the first argument names."""
    sys.dont_write_bytecode = True
    os.umask(0o077)
    os.chdir("/")
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)
    privileges.be_undumpable()
    privileges.become_reaper()
    gc.collect()
    gc.freeze()
    ours, theirs = message_socket.pair()
    launcher = os.fork()
    if launcher == 0:
        ours.close()
        run_and_exit(lambda: run_launcher(theirs))
    theirs.close()
    Server(sys.argv[1], ours, launcher).run()
