"""Tasks in the format of Harbor: a folder with an instruction, an environment, tests and a solution."""
