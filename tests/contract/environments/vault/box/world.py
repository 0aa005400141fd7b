"""The vault in the box. The standard library, and what is in every box."""

from sandbox_service.environments.shared.box.calls import parse_calls
from sandbox_service.runner.world import Outcome, Start, Verdict, World, WorldError, wants_sparse
from sandbox_service.wire.codes import BoxErrorCode

HOW = "Call look(drawer) for each of the drawers left and right, then enter(code) once with the sum."


def tool(name, argument):
    schema = {"type": "object", "properties": {argument: {"type": "string"}}, "required": [argument]}
    return {"type": "function", "function": {"name": name, "description": HOW, "parameters": schema}}


class VaultWorld(World):
    def start(self):
        if self.context.params:
            raise WorldError(f"unknown parameter {min(self.context.params)!r}", BoxErrorCode.INVALID_REQUEST)
        self.entered = None
        messages = [{"role": "system", "content": HOW}, {"role": "user", "content": "Open the vault."}]
        info = {"category": self.task["category"], "max_steps": self.task["max_steps"]}
        return Start(messages, [tool("look", "drawer"), tool("enter", "code")], info)

    def step(self, message, timeout_s):
        calls = parse_calls(message)
        texts = [call.problem or self.answer(call.name, call.arguments) for call in calls] or [HOW]
        sent = [{"role": "user", "content": "\n".join(texts)}]
        if calls and calls[0].native:
            pairs = zip(calls, texts, strict=True)
            sent = [{"role": "tool", "tool_call_id": call.call_id, "content": text} for call, text in pairs]
        return Outcome(sent, terminated=self.entered is not None)

    def answer(self, name, arguments):
        if self.entered is not None:
            return "The vault takes one code only."
        if name == "look" and arguments.get("drawer") in ("left", "right"):
            return str(self.task["drawers"][arguments["drawer"]])
        if name == "enter" and isinstance(arguments.get("code"), str):
            self.entered = arguments["code"]
            return "The code is entered."
        return f"Nothing was done: {name[:50]!r} with these arguments is no call. {HOW}"

    def evaluate(self, params, grading):
        wants_sparse(params)
        return Verdict(float(self.entered == grading["code"]), self.entered == grading["code"])


WORLD = VaultWorld
