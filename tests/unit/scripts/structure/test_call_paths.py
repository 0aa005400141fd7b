"""Functions that count as being on a path, and records of the trace."""

import os
import subprocess
import sys
from textwrap import dedent

import pytest

from scripts.structure.call_paths import Call, boxes_calls, path_of, read_calls, trace_paths, traced_copy
from scripts.structure.commands import PathsError
from scripts.structure.training_steps import step_ends

from .made_up_tree import write_tree

SHOP = """
    def sell():
        return pay() + sum(each for each in range(3))

    def pay():
        return 1
"""


def calls(*records):
    return [Call(time, process, function) for time, process, function in records]


def test_a_function_is_on_the_path_when_each_window_has_it():
    found = path_of(
        calls(
            (1, "a", "f"), (2, "b", "g"), (3, "a", "once"), (11, "a", "f"), (12, "b", "g"), (25, "a", "late")
        ),
        [(0, 5), (10, 15)],
        [],
    )
    assert (found["functions"], found["windows"]) == (2, 2)
    assert found["order"] == {"a": ["f"], "b": ["g"]}


def test_the_deepest_stack_is_that_of_the_functions_on_the_path():
    records = [Call(1, "a", "f", 2), Call(2, "a", "g", 5), Call(3, "b", "h", 3), Call(11, "a", "f", 2)]
    assert path_of(records, [(0, 5)], [])["deepest_stack"] == {"a": 5, "b": 3}
    assert path_of(records, [(0, 5), (10, 15)], [])["deepest_stack"] == {"a": 2}


def test_the_order_is_that_of_the_first_calls():
    found = path_of(
        calls((3, "a", "last"), (1, "a", "first"), (2, "a", "middle"), (4, "a", "first")), [(0, 5)], []
    )
    assert found["order"] == {"a": ["first", "middle", "last"]}


def test_a_function_that_runs_in_each_idle_window_is_left_out():
    records = calls((1, "a", "f"), (2, "a", "tick"), (11, "a", "tick"), (21, "a", "tick"), (22, "a", "rare"))
    assert path_of(records, [(0, 5)], [(10, 15), (20, 25)])["order"] == {"a": ["f"]}


def test_a_function_of_two_processes_counts_once():
    assert path_of(calls((1, "a", "f"), (2, "b", "f")), [(0, 5)], [])["functions"] == 1


def test_windows_without_calls_are_an_error():
    with pytest.raises(PathsError, match="has no call"):
        path_of(calls((1, "a", "f")), [(0, 5), (10, 15)], [])


def test_an_unknown_kind_of_path_is_refused_before_anything_starts(tmp_path):
    with pytest.raises(PathsError, match="knows no fork; choose from create, step, training_step"):
        trace_paths(tmp_path, ["shop"], ["fork"])


@pytest.fixture
def copy(tmp_path):
    """A traced copy of a small tree."""
    tree = write_tree(tmp_path / "tree", {"shop/__init__.py": "NAME = 'shop'\n", "shop/till.py": SHOP})
    subprocess.run(["git", "init", "--quiet"], cwd=tree, check=True)
    return traced_copy(tree, tmp_path / "copy", ["shop"])


def run(copy, folder, code):
    variables = {**os.environ, "PYTHONPATH": str(copy), "STRUCTURE_TRACE": str(folder)}
    subprocess.run([sys.executable, "-c", code], env=variables, check=True)


def functions(records):
    return [each.function for each in records]


def test_the_trace_records_the_functions_of_a_process_and_of_its_forks(copy, tmp_path):
    records = tmp_path / "records"
    records.mkdir()
    child = "if os.fork() == 0: pay(); os._exit(0)"
    run(copy, records, f"import os; from shop.till import pay, sell; sell()\n{child}\nos.wait()")
    found = list(read_calls(records, {}))
    assert functions(found)[:2] == ["shop/till.py:1 sell", "shop/till.py:4 pay"]
    assert [each.depth for each in found[:2]] == [1, 2]
    assert len(list(records.iterdir())) == 1
    assert [each.time_ns for each in found] == sorted(each.time_ns for each in found)


def test_a_thread_is_traced_that_was_started_before_the_tree_was_imported(copy, tmp_path):
    code = """
        import queue, threading
        given = queue.Queue()
        thread = threading.Thread(target=lambda: given.get()())
        thread.start()
        from shop.till import pay
        given.put(pay)
        thread.join()
    """
    run(copy, tmp_path, dedent(code))
    assert functions(read_calls(tmp_path, {})) == ["shop/till.py:4 pay"]


def test_a_package_below_another_folder_is_traced(tmp_path):
    tree = write_tree(tmp_path / "tree", {"clients/shop/__init__.py": "", "clients/shop/till.py": SHOP})
    subprocess.run(["git", "init", "--quiet"], cwd=tree, check=True)
    copy = traced_copy(tree, tmp_path / "copy", ["clients/shop"])
    code = f"import sys; sys.path.insert(0, {str(copy / 'clients')!r}); from shop.till import pay; pay()"
    run(copy, tmp_path, code)
    assert functions(read_calls(tmp_path, {})) == ["clients/shop/till.py:4 pay"]


def test_threads_are_traced(copy, tmp_path):
    code = (
        "import threading; from shop.till import pay; t = threading.Thread(target=pay); t.start(); t.join()"
    )
    run(copy, tmp_path, code)
    assert functions(read_calls(tmp_path, {})) == ["shop/till.py:4 pay"]


def test_an_isolated_interpreter_records_on_standard_error(copy, tmp_path):
    code = f"import sys; sys.path.insert(0, {str(copy)!r}); from shop.till import pay; pay()"
    variables = {"PATH": os.environ["PATH"]}
    done = subprocess.run(
        [sys.executable, "-I", "-c", code], env=variables, capture_output=True, text=True, check=True
    )
    assert functions(boxes_calls([f"another line\n{done.stderr}"])) == ["shop/till.py:4 pay"]


def test_a_box_records_whose_packages_above_the_copied_ones_are_empty(tmp_path):
    tree = write_tree(
        tmp_path / "tree", {"shop/__init__.py": "", "shop/till/__init__.py": "", "shop/till/pay.py": SHOP}
    )
    subprocess.run(["git", "init", "--quiet"], cwd=tree, check=True)
    copy = traced_copy(tree, tmp_path / "copy", ["shop"])
    (copy / "shop/__init__.py").write_text("")
    code = f"import sys; sys.path.insert(0, {str(copy)!r}); from shop.till.pay import pay; pay()"
    done = subprocess.run(
        [sys.executable, "-I", "-c", code], env={}, capture_output=True, text=True, check=True
    )
    assert functions(boxes_calls([done.stderr])) == ["shop/till/pay.py:4 pay"]


def test_a_process_that_was_not_asked_records_nothing(copy, tmp_path):
    variables = {**os.environ, "PYTHONPATH": str(copy)}
    variables.pop("STRUCTURE_TRACE", None)
    code = "from shop import NAME; from shop.till import pay; pay(); print(NAME)"
    done = subprocess.run(
        [sys.executable, "-c", code], env=variables, capture_output=True, text=True, check=True
    )
    assert (done.stdout, done.stderr) == ("shop\n", "")


def test_a_step_ends_with_its_line_of_times():
    lines = [
        '{"step": 0, "time": 1.0, "metrics": {"loss/imitate": 1.0}}',
        '{"step": 1, "time": 2.0, "metrics": {"time/take": 1.0}}',
        '{"step": 1, "time": 3.0, "metrics": {"evaluation/success": 1.0}}',
        '{"step": 2, "time": 4.0, "metrics": {"time/take": 1.0}}',
    ]
    assert step_ends("\n".join(lines)) == [2.0, 4.0]
