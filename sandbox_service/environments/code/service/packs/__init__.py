"""Task packs, read by the service and never copied into a box: our own, HumanEval, MBPP, the user's files."""
