"""Write pairs of completions from played demonstrations of which some are corrupted.

``python -m scripts.demonstration_pairs RUN_FOLDER`` reads the demonstrations that the warm start of a run of
deploy/runs/cpu_demo.toml has played, and the correct ones of the same tasks. A failed episode is rejected,
and the correct one is preferred: its observation is the number that its program prints, which is also its
answer. The script checks that on all played episodes that succeeded.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from trainer.sft.demonstrations import PLAYED, read_demonstrations
from trainer.sft.warm_start import read_played
from trainer.types import Trajectory

DATA = Path(__file__).parents[1] / "deploy" / "runs" / "data"


def main(run: Path) -> None:
    """Write the pairs of a run's demonstrations."""
    played = read_played(run / PLAYED)
    if played is None:
        raise SystemExit(f"{run} has no {PLAYED}: its warm start has not been played")
    correct = {
        each.task_id: [message.content or "" for message in each.messages]
        for each in read_demonstrations(DATA / "arithmetic_easy.jsonl", "code")
    }
    rows = []
    for episode in played:
        prompt, said = _conversation(episode)
        wanted = _completion(correct[episode.task.task_id])
        if episode.success:
            if said != wanted:
                raise SystemExit(f"{episode.task.task_id}: a program does not print its answer alone")
            continue
        rows.append({"task_id": episode.task.task_id, "prompt": prompt, "chosen": wanted, "rejected": said})
    target = DATA / "arithmetic_easy_pairs.jsonl"
    target.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    print(f"{len(rows)} pairs in {target}")


def _conversation(episode: Trajectory) -> tuple[list[dict[str, str]], list[dict[str, str]]]:
    """Return the prompt without its system message, which runs configure, and the turns up to the last."""
    messages = [{"role": line.role, "content": line.content} for line in episode.lines]
    turns = [place for place, each in enumerate(messages) if each["role"] == "assistant"]
    prompt = [each for each in messages[: turns[0]] if each["role"] != "system"]
    return prompt, messages[turns[0] : turns[-1] + 1]


def _completion(said: list[str]) -> list[dict[str, str]]:
    program, submission = said
    call = json.loads(submission.removeprefix("<tool_call>").removesuffix("</tool_call>"))
    return [
        {"role": "assistant", "content": program},
        {"role": "user", "content": str(call["arguments"]["answer"])},
        {"role": "assistant", "content": submission},
    ]


if __name__ == "__main__":
    main(Path(sys.argv[1]))
