"""A world whose steps are code: the content of a message is a JSON object that says what the agent does.

``{"python": source}`` and ``{"shell": command}`` run as the agent, with an optional ``timeout``. The
answer is the execution as JSON. ``{"world": "exit"}`` ends the world's own process,
``{"world": "connect"}`` lets it speak to itself over loopback.
"""

import dataclasses
import json
import os
import socket

from sandbox_service.runner.world import Outcome, Start, Verdict, World


class ProbeWorld(World):
    def start(self):
        return Start(messages=[{"role": "user", "content": "Do as you like."}])

    def step(self, message, timeout_s):
        order = json.loads(message["content"])
        agent = self.context.agent
        timeout = float(order.get("timeout", min(20.0, timeout_s)))
        # The step's own time is what a busy machine may take; the agent's counts while it has a processor.
        patience = max(timeout, timeout_s)
        if "python" in order:
            execution = agent.python(order["python"], timeout, wall_timeout_s=patience)
        elif "shell" in order:
            execution = agent.shell(order["shell"], timeout, wall_timeout_s=patience)
        elif order.get("world") == "exit":
            os._exit(3)
        elif order.get("world") == "connect":
            return Outcome(messages=[{"role": "user", "content": connect()}])
        else:
            raise ValueError(f"unknown order {order}")
        answer = {"role": "user", "content": json.dumps(dataclasses.asdict(execution))}
        return Outcome(messages=[answer])

    def evaluate(self, params, grading):
        self.context.agent.kill()
        try:
            answer = self.context.agent.read_file("answer.txt", 100).decode()
        except OSError:
            answer = ""
        right = answer == grading["answer"]
        return Verdict(score=float(right), success=right)


def connect():
    """Return the result of a connection to ourselves over loopback."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        try:
            socket.create_connection(server.getsockname(), 5).close()
        except OSError as error:
            return type(error).__name__
    return "connected"


WORLD = ProbeWorld
