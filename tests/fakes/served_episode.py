"""An episode as agents see it, served on the gateway's address: one task, and tools that answer at once."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from aiohttp import web

from sandbox_contract.agents import AgentStep, AgentStepResult, AgentTask
from sandbox_contract.messages import FunctionSchema, Message, Tool
from trainer.model_gateway.server import SessionRoute

__all__ = ["ServedEpisode"]

_TEXT = {"type": "string", "description": "Text."}
_ARGUMENTS = {"python": "code", "execute_bash": "command", "submit": "answer"}
TOOLS = tuple(
    Tool(
        function=FunctionSchema(
            name=name,
            description=f"Use {name}.",
            parameters={"type": "object", "properties": {argument: _TEXT}, "required": [argument]},
        )
    )
    for name, argument in _ARGUMENTS.items()
)


@dataclass
class ServedEpisode:
    """An episode that a gateway serves by the routes of ``list_routes``; its tool ``submit`` ends it."""

    task: str = "compute 37 plus 58"
    output: str = "95"
    """The output of a program or command; a command ``echo TEXT`` prints its text."""
    calls: list[tuple[str, object]] = field(default_factory=list)
    """Tools that were called, and the argument."""
    finished: bool = False

    def list_routes(self) -> list[SessionRoute]:
        """Return the routes that a gateway serves."""
        return [
            SessionRoute("GET", "/episode", self._read),
            SessionRoute("POST", "/episode/step", self._step),
        ]

    async def _read(self, request: web.Request, _: object) -> web.Response:
        url = f"http://{request.host}"
        task = AgentTask(
            base_url=f"{url}/v1",
            model="policy",
            episode_url=f"{url}/episode",
            messages=(
                Message(role="system", content="Use tools."),
                Message(role="user", content=self.task),
            ),
            tools=TOOLS,
        )
        return web.json_response(task.model_dump(mode="json"))

    async def _step(self, request: web.Request, _: object) -> web.Response:
        message = AgentStep.model_validate_json(await request.read()).message
        answers = tuple(
            Message(role="tool", tool_call_id=call.id, content=self._call(call.function))
            for call in message.tool_calls or ()
        )
        result = AgentStepResult(messages=answers, finished=self.finished)
        return web.json_response(result.model_dump(mode="json"))

    def _call(self, function) -> str:
        arguments = function.arguments
        arguments = json.loads(arguments) if isinstance(arguments, str) else arguments
        argument = arguments.get(_ARGUMENTS.get(function.name))
        self.calls.append((function.name, argument))
        self.finished = self.finished or function.name == "submit"
        if function.name == "submit":
            return "Submitted."
        head, _, said = str(argument).partition("echo ")
        return said if not head and ">" not in said else self.output
