"""A process as vLLM starts them for a model, and a parent that dies without a word to it."""

import multiprocessing
import os
import sys
import threading

from trainer.weight_sync.worker_life import end_with_parent


def idle(ready):
    """Do nothing for ever."""
    ready.send("there")
    threading.Event().wait()


def watchful(ready):
    """Do nothing for as long as the parent lives."""
    end_with_parent()
    idle(ready)


def started(target):
    """A child that is there."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    child = context.Process(target=target, args=(theirs,))
    child.start()
    ours.recv()
    return child


if __name__ == "__main__":
    # Run as a module, the child must find its function under the module's own name.
    from tests.harness import model_process

    sys.stdout.write(str(started(model_process.watchful).pid))
    sys.stdout.flush()
    os._exit(1)
