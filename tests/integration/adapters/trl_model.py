"""Makes a small model that calls ``submit``, for TRL's trainer: ``trl_model.py SERVICE FOLDER``.

It is fine-tuned on the answers of the example's tasks just long enough to call the tool, so that some of its
episodes are right and others are not.
"""

import runpy
import sys
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer
from transformers.utils import get_json_schema
from trl.chat_template_utils import qwen3_chat_template

from sandbox_client import SandboxClient
from sandbox_client.adapters.trl import environment_class
from tests.harness.agent_packages import ROOT
from trainer.config.model import TinyModel
from trainer.models.tiny import make_tiny

MOST_STEPS = 400
LOSS = 0.01
ANSWERS = {"arithmetic/train/easy/1": 126, "arithmetic/train/easy/2": -33}
TOOLS = ("execute_bash", "python", "str_replace_editor", "submit")


def main(service: str, folder: Path) -> None:
    """Write the model to ``folder``."""
    example = runpy.run_path(str(ROOT / "examples" / "adapters" / "trl" / "train.py"))
    make_tiny(
        TinyModel(hidden=64, layers=2, heads=2, key_value_heads=2, feed_forward=128, context=4096), folder
    )
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.chat_template = qwen3_chat_template
    # The template's marks are tokens, and the model stops at the end of its message, as Qwen's own do.
    tokenizer.add_special_tokens({"eos_token": "<|im_end|>", "additional_special_tokens": ["<|im_start|>"]})
    tokenizer.add_tokens(["<think>", "</think>", "<tool_call>", "</tool_call>"])
    with SandboxClient(service) as client:
        listed = client.get_env_profile("code", example["SPLIT"]).task_ids[: example["TASKS"]]
    assert list(listed) == list(ANSWERS), listed
    environment = environment_class(service, "code")()
    tools = [get_json_schema(getattr(environment, name)) for name in TOOLS]
    texts = []
    for task_id, answer in ANSWERS.items():
        prompt = environment.reset(task_id)
        call = {"type": "function", "function": {"name": "submit", "arguments": {"answer": str(answer)}}}
        said = {"role": "assistant", "content": "", "tool_calls": [call]}
        messages = [{"role": "user", "content": prompt}, said]
        texts.append((messages, tools))
    teach(folder, tokenizer, texts)


def teach(folder: Path, tokenizer: Any, texts: list[Any]) -> None:
    """Fine-tune the model on the last message of each conversation."""
    model = AutoModelForCausalLM.from_pretrained(folder)
    model.resize_token_embeddings(len(tokenizer))
    model.generation_config.eos_token_id = model.config.eos_token_id = tokenizer.eos_token_id
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    examples = []
    for messages, tools in texts:
        prompt = tokenizer.apply_chat_template(
            messages[:-1], tools=tools, tokenize=False, add_generation_prompt=True
        )
        whole = tokenizer.apply_chat_template(messages, tools=tools, tokenize=False)
        ids = tokenizer(whole, return_tensors="pt")["input_ids"]
        labels = ids.clone()
        labels[:, : len(tokenizer(prompt)["input_ids"])] = -100
        examples.append((ids, labels))
    for step in range(MOST_STEPS):
        ids, labels = examples[step % len(examples)]
        loss = model(input_ids=ids, labels=labels).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if loss.item() < LOSS:
            break
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    sys.stdout.write(f"loss {loss.item():.3f} after {step + 1} steps, {ids.shape[1]} tokens\n")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
