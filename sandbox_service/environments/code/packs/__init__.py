"""Loaders of task packs: our own, HumanEval, MBPP, and JSONL files of the user."""
