r"""Entry of the runner: forks the launcher while memory is pristine, then serves.

    python3 -I -c "import sys; sys.path.insert(0, sys.argv.pop(1)); \
        from sandbox_service.runner.main_process.main import main; main()" PATH SOCKET [MODULE]
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import signal
import sys

from sandbox_service.runner.io import message_socket
from sandbox_service.runner.kernel import privileges
from sandbox_service.runner.kernel.fork_exit import run_and_exit
from sandbox_service.runner.launcher.launcher import run_launcher

from .server import Server


def main() -> None:
    """Run a box's runner on the socket path that the first argument names.

    A second argument names a module that all processes of the box share in memory.
    """
    sys.dont_write_bytecode = True
    os.umask(0o077)
    os.chdir("/")
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)
    # Before the forks, which inherit it: no process of the same user may look into ours.
    privileges.be_undumpable()
    # Orphans of a launcher or zygote that died come here, and are killed at the end.
    privileges.become_reaper()
    for module in sys.argv[2:]:
        # An import touches objects all over the memory, which a fork would get copies of. A module that fails
        # does so again in the zygote, which reports it.
        with contextlib.suppress(Exception):
            importlib.import_module(module)
    # Frozen objects are left alone by collections in the forks, so that their pages stay shared.
    gc.collect()
    gc.freeze()
    ours, theirs = message_socket.pair()
    # Before the first frame: what the launcher forks for agents holds neither the token nor a task.
    launcher = os.fork()
    if launcher == 0:
        ours.close()
        run_and_exit(lambda: run_launcher(theirs))
    theirs.close()
    Server(sys.argv[1], ours, launcher).run()
