"""Tasks of the vault: add up the numbers in two drawers, and enter the sum."""

from sandbox_contract.inspection import Environment, Split
from sandbox_service.environments.base import EnvironmentSpec, TaskPayload
from sandbox_service.environments.shared.service.catalog_errors import unknown_split, unknown_task

SPLITS = {"train": ["vault-0", "vault-1", "vault-2"], "test": ["vault-3"]}
TRAITS = {"agent_code": False, "many_per_worker": True, "fork": True, "deterministic": True}
MAX_STEPS = 10


class VaultCatalog:
    spec = EnvironmentSpec(
        name="vault",
        world_module="tests.contract.environments.vault.box.world",
        image="sandbox-code",
        instances_per_box=100,
        **TRAITS,
    )

    def describe(self):
        return Environment(
            name="vault",
            description="Add up the numbers in the drawers, and enter the sum.",
            splits=[Split(name=name, size=len(ids)) for name, ids in SPLITS.items()],
            default_split="train",
            action_format="Calls of the tools look and enter.",
            capabilities=self.spec.capabilities,
            reward_range=(0.0, 1.0),
            max_steps=MAX_STEPS,
            params={"type": "object", "properties": {}, "additionalProperties": False},
        )

    def task_ids(self, split):
        if split not in SPLITS:
            raise unknown_split("vault", split, SPLITS)
        return SPLITS[split]

    def payload(self, task_id):
        if not any(task_id in ids for ids in SPLITS.values()):
            raise unknown_task("vault", task_id)
        left, right = 31415926 + int(task_id[-1]), 27182818
        task = {"drawers": {"left": left, "right": right}, "category": "sums", "max_steps": MAX_STEPS}
        return TaskPayload(task=task, grading={"code": str(left + right)}, max_steps=MAX_STEPS)

    def reference(self, task_id):
        look = '<tool_call>{"name": "look", "arguments": {"drawer": "%s"}}</tool_call>'
        enter = '<tool_call>{"name": "enter", "arguments": {"code": "%s"}}</tool_call>'
        texts = [look % "left", look % "right", enter % self.payload(task_id).grading["code"]]
        return [{"role": "assistant", "content": text} for text in texts]
