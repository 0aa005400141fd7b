"""Trains a model with TRL's own trainer on episodes of ``code``: SERVICE MODEL FOLDER.

Two small steps, to see that everything fits together. The model's chat template must be one that TRL knows.
"""

import sys
from pathlib import Path

from datasets import Dataset
from trl import GRPOConfig, GRPOTrainer  # type: ignore[attr-defined]  # they are imported lazily

from sandbox_client.adapters.trl import environment_class, task_rows

SPLIT = "arithmetic_train_easy"
TASKS = 2


def main(service: str, model: str, folder: Path) -> None:
    """Train for two steps of one task each, four episodes a task, and print each step's figures."""
    rows = task_rows(service, "code", SPLIT)[:TASKS]
    trainer = GRPOTrainer(
        model=model,
        environment_factory=environment_class(service, "code"),
        train_dataset=Dataset.from_list(rows),
        args=GRPOConfig(
            output_dir=str(folder),
            max_steps=2,
            num_generations=4,
            per_device_train_batch_size=4,
            max_completion_length=192,
            max_tool_calling_iterations=2,
            learning_rate=1e-4,
            logging_steps=1,
            save_strategy="no",
            report_to="none",
            use_cpu=True,
            bf16=False,
        ),
    )
    trainer.train()
    for step in trainer.state.log_history:
        if "reward" in step:
            calls = step["tools/call_frequency"]
            print(f"step {step['step']}: reward {step['reward']:.2f}, tool calls an episode {calls:.2f}")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
