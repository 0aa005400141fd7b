"""Demonstrations of bug fixes, with the commands run by a real shell."""

import re
import subprocess
from pathlib import Path

import pytest

from scripts.bug_fix_demonstrations import SUBMIT, BugFix, Unsuitable, messages_of

FILLER = "# a long comment\n    " * 60


def task(original: str, defective: str, *, shown: str = "assert total([1]) == 1") -> BugFix:
    """A task whose function ``total`` has one line, ``original`` or ``defective``."""
    body = "        n += 1" if original.endswith(":") else "    return n"
    texts = ["\n".join(["", "def total(n):", f"    {line}", body, ""]) for line in (original, defective)]
    return BugFix("demo-1", f"This check fails:\n{shown}", "pack/sums.py", *texts)


def run(message: str, folder: Path) -> str:
    """The output of a message's block of bash."""
    found = re.search(r"```bash\n(.*)\n```", message, re.DOTALL)
    assert found is not None
    done = subprocess.run(["bash", "-c", found[1]], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout


@pytest.mark.parametrize(
    ("original", "defective"),
    [
        ("if n == 1:", "if n != 1:"),
        ("if n is not None:", "if n is None:"),
        ("if a(n[0]):", "if not (a(n[0])):"),
        ("if not n and b:", "if (n) and b:"),
        ("raise KeyError(n)", "pass"),
        ("n = 1 * (1 + n[-1])", "n = 1 * (1 - n[-1])"),
        ("x = [1, 1, n]", "x = [1, 2, n]"),
        ("return a / b | c", "return a / b & c"),
        ("return f('/', 'a\\\\n')", "return f('a\\\\n', '/')"),
        ("return n + 1", "return n  + 1"),
    ],
)
def test_the_two_messages_show_the_function_and_restore_the_original(tmp_path, original, defective):
    made = task(original, defective)
    (tmp_path / "pack").mkdir()
    module = tmp_path / made.path
    module.write_text(made.defective)
    messages = messages_of(made)
    assert isinstance(messages, tuple)
    shown = run(messages[0], tmp_path)
    assert shown.splitlines()[0] == "./pack/sums.py"
    assert f"3-    {defective}" in shown.splitlines()
    run(messages[1], tmp_path)
    assert module.read_text() == made.original
    assert messages[1].endswith(SUBMIT)


def test_an_edit_is_as_short_as_it_can_be():
    messages = messages_of(task("if n == 1:", "if n != 1:"))
    assert isinstance(messages, tuple)
    assert "sed -i '3s/!=/==/' ./pack/sums.py" in messages[1]


@pytest.mark.parametrize(
    ("made", "reason"),
    [
        (task("if n == 1:", "if n != 1:", shown="assert mean([1]) == 1"), "no check that is shown"),
        (task("n = 1", "n = (\n        1)"), "several lines"),
        (task(f"{FILLER}n = 1", f"{FILLER}n = 2"), "far from"),
    ],
)
def test_a_task_that_no_short_demonstration_solves_says_why(made, reason):
    found = messages_of(made)
    assert isinstance(found, Unsuitable)
    assert reason in found.reason
