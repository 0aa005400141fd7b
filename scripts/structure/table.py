"""Print figures as tables: one tree, or the same figures of two trees beside each other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from .wording import WORDING_TO_AVOID

Figures = Mapping[str, Any]
_ROWS = {
    "files": "files",
    "lines": "lines",
    "median_file": "median file",
    "p90_file": "p90 file",
    "largest_file": "largest file",
    "header_percent": "header lines %",
    "comment_percent": "comment lines %",
    "docstring_percent": "docstring lines %",
    "documented_percent": "documented definitions %",
    "functions": "functions",
    "median_function": "median function",
    "longest_function": "longest function",
    "all_files_percent": "files with __all__ %",
    "all_lines_percent": "lines of __all__ %",
    "type_checking_files_percent": "files with TYPE_CHECKING %",
    "type_checking_lines_percent": "lines of TYPE_CHECKING %",
    "untyped_dicts": "dict[str, Any]",
    "question_docstrings": "docstrings: What, Who, ...",
}
_NAME_WIDTH, _WIDTH = 28, 17
_PATHS = {"create": "a create", "step": "a step", "training_step": "a training step"}


def tables(figures: Figures) -> Iterator[str]:
    """Yield the lines of all tables of a tree."""
    packages = figures["packages"]
    yield _line("", packages)
    for key, title in _ROWS.items():
        yield _line(title, [_short(row[key]) for row in packages.values()])
    yield "\nwording to avoid (docs/glossary.md), and the terms that replace it"
    yield from wording_table(figures["wording_to_avoid"])
    yield from _lists(figures)
    yield from _paths(figures.get("paths", {}))


def wording_table(wording: Figures) -> Iterator[str]:
    """Yield a row a word, a column a package."""
    yield _line("", wording)
    for word, (_, better) in WORDING_TO_AVOID.items():
        yield _line(word, [counts.get(word, 0) for counts in wording.values()]) + f"  -> {better}"
    yield _line("all", [sum(counts.values()) for counts in wording.values()])


def comparison(before: Figures, after: Figures) -> Iterator[str]:
    """Yield the lines of a table with the product's figures of two trees."""
    yield _line("product", ["before", "after"])
    for key, title in _ROWS.items():
        yield _line(title, [_short(each["packages"]["product"][key]) for each in (before, after)])
    for title, values in _sums(before, after):
        yield _line(title, values)


def _sums(before: Figures, after: Figures) -> Iterator[tuple[str, list[object]]]:
    both = (before, after)
    yield "classes defined twice", [len(each["classes_defined_twice"]) for each in both]
    yield "one-word methods of many", [len(each["one_word_methods_of_many_classes"]) for each in both]
    yield "one-word methods %", [each["one_word_methods_percent"] for each in both]
    yield "duplicated pieces", [each["duplicates"]["pairs"] for each in both]
    yield "... with the same text", [each["duplicates"]["pairs_of_the_same_text"] for each in both]
    yield "spellings of a logger", [len(each["loggers"]) for each in both]
    for place in range(len(before["fan_out"])):
        rows = [each["fan_out"][place] for each in both]
        yield f"fan-out, {place + 1}.", [row["runtime"] for row in rows]
    for where in ("product", "docs"):
        counts = [sum(each["wording_to_avoid"].get(where, {}).values()) for each in both]
        yield f"wording to avoid, {where}", list(counts)
    for key, title in _PATHS.items():
        paths = [each.get("paths", {}).get(key) for each in both]
        if any(paths):
            yield f"functions of {title}", [path["functions"] if path else "-" for path in paths]
            counts = [functions_by_package(path) if path else Counter() for path in paths]
            for package in sorted(set().union(*counts)):
                yield f"... in {package}", [count[package] for count in counts]
            stacks = [sum(path["deepest_stack"].values()) if path else "-" for path in paths]
            yield f"layers of {title}", stacks


def _lists(figures: Figures) -> Iterator[str]:
    twice = figures["classes_defined_twice"]
    yield f"\npublic classes defined more than once: {len(twice)}"
    yield from (f"  {name}: {', '.join(places)}" for name, places in twice.items())
    methods = figures["one_word_methods_of_many_classes"]
    yield f"\nmethod names of one word that more than five classes define: {len(methods)}"
    yield "  " + ", ".join(f"{name} {count}" for name, count in methods.items())
    yield f"  of all method names, {figures['one_word_methods_percent']} % are one word"
    yield "\nmodules that import most (at run time / with TYPE_CHECKING)"
    yield from (f"  {row['module']} {row['runtime']} / {row['with_typing']}" for row in figures["fan_out"])
    found = figures["duplicates"]
    yield (
        f"\nduplicated pieces of six or more lines: {found['pairs']},"
        f" {found['pairs_of_the_same_text']} of them with the same text"
    )
    yield from (f"  {each['lines']:>3} lines  {each['first']}  {each['second']}" for each in found["worst"])
    yield "\nloggers: " + ", ".join(f"{name} {count}" for name, count in figures["loggers"].items())


def functions_by_package(path: Figures) -> Counter[str]:
    """Return how many functions of a path each folder at the top of the tree has.

    It keeps the service, the trainer and the client apart from packages that only help them.
    """
    functions = {function for names in path["order"].values() for function in names}
    return Counter(function.partition("/")[0] for function in functions)


def _paths(paths: Figures) -> Iterator[str]:
    for key, title in _PATHS.items():
        if key in paths:
            path = paths[key]
            yield f"\nfunctions on the path of {title}: {path['functions']} ({path['windows']} measured)"
            packages = functions_by_package(path).most_common()
            yield "  " + ", ".join(f"{name} {count}" for name, count in packages)
            for process, names in path["order"].items():
                deepest = path["deepest_stack"][process]
                yield f"  {process}: {len(names)}, at most {deepest} on the stack"
                yield from (f"    {name}" for name in names)


def _line(title: str, values: Mapping[str, object] | Sequence[object]) -> str:
    return f"{title:<{_NAME_WIDTH}}" + "".join(f"{value!s:>{_WIDTH}}" for value in values)


def _short(value: object) -> object:
    """Return the number of a pair of number and place."""
    return value[0] if isinstance(value, list) and value else value
