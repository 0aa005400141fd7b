"""Add up the facts of files: a row for each package, for the product, for the tests and for all else."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from statistics import median

from .duplicates import find_duplicates
from .file_facts import FileFacts, facts_of
from .tree import SourceFile
from .wording import count_wording

PRODUCT = "product"
MANY_CLASSES = 5
"""A method name of more classes than these should be a verb and a noun."""
TOP = 5
WORST = 10

Figures = dict[str, object]


def measure(files: Sequence[SourceFile], pages: Mapping[str, str]) -> Figures:
    """Return all static figures of a tree, as they are written to JSON."""
    facts = {
        file.place: facts_of(file.text, file.module, is_package=file.path.name == "__init__.py")
        for file in files
    }
    product = [file for file in files if file.is_product]
    groups: dict[str, list[SourceFile]] = {PRODUCT: product}
    for file in files:
        groups.setdefault(file.group, []).append(file)
    return {
        "packages": {
            name: _row(members, facts) for name, members in groups.items() if name == PRODUCT or members
        },
        "wording_to_avoid": _wording(groups, pages),
        **_names(product, facts),
        "fan_out": _fan_out(product, facts),
        "duplicates": _duplicates(product),
        "loggers": _loggers(product, facts),
    }


def share(part: int, whole: int) -> float:
    """Return a part in percent of the whole, with one digit; 0 of nothing."""
    return round(100 * part / whole, 1) if whole else 0.0


def quantile(ordered: Sequence[int], part: float) -> int:
    """Return the value below which ``part`` of the sorted values lie; 0 if there are none."""
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))] if ordered else 0


def _row(members: Sequence[SourceFile], facts: Mapping[str, FileFacts]) -> Figures:
    found = [facts[file.place] for file in members]
    sizes = sorted((each.lines, file.place) for each, file in zip(found, members, strict=True))
    lengths = sorted(
        (length, f"{file.place}:{name}") for file in members for length, name in facts[file.place].functions
    )
    lines = sum(each.lines for each in found)
    return {
        "files": len(found),
        "lines": lines,
        "median_file": int(median(size for size, _ in sizes)) if sizes else 0,
        "p90_file": quantile([size for size, _ in sizes], 0.9),
        "largest_file": list(sizes[-1]) if sizes else [],
        "header_percent": share(sum(each.header_lines for each in found), lines),
        "comment_percent": share(sum(each.comment_lines for each in found), lines),
        "docstring_percent": share(sum(each.docstring_lines for each in found), lines),
        "documented_percent": share(
            sum(each.documented for each in found), sum(each.definitions for each in found)
        ),
        "functions": len(lengths),
        "median_function": int(median(length for length, _ in lengths)) if lengths else 0,
        "longest_function": list(lengths[-1]) if lengths else [],
        "all_files_percent": share(sum(each.has_all for each in found), len(found)),
        "all_lines_percent": share(sum(each.all_lines for each in found), lines),
        "type_checking_files_percent": share(sum(each.has_type_checking for each in found), len(found)),
        "type_checking_lines_percent": share(sum(each.type_checking_lines for each in found), lines),
        "untyped_dicts": sum(each.untyped_dicts for each in found),
        "question_docstrings": sum(len(each.question_docstrings) for each in found),
    }


def _wording(groups: Mapping[str, Sequence[SourceFile]], pages: Mapping[str, str]) -> Figures:
    counts = {
        name: sum((count_wording(file.text) for file in members), Counter())
        for name, members in groups.items()
    }
    counts["docs"] = sum((count_wording(text) for text in pages.values()), Counter())
    return {name: dict(sorted(found.items())) for name, found in counts.items()}


def _names(product: Sequence[SourceFile], facts: Mapping[str, FileFacts]) -> Figures:
    classes: dict[str, list[str]] = defaultdict(list)
    definers: dict[str, set[str]] = defaultdict(set)
    for file in product:
        for name in facts[file.place].public_classes:
            classes[name].append(file.place)
        for owner, method in facts[file.place].methods:
            definers[method].add(f"{file.place}:{owner}")
    often = {name: len(owners) for name, owners in definers.items() if len(owners) > MANY_CLASSES}
    by_count = sorted(often.items(), key=lambda item: (-item[1], item[0]))
    return {
        "classes_defined_twice": {
            name: places for name, places in sorted(classes.items()) if len(places) > 1
        },
        "one_word_methods_of_many_classes": {name: count for name, count in by_count if "_" not in name},
        "one_word_methods_percent": share(sum("_" not in name for name in definers), len(definers)),
    }


def _fan_out(product: Sequence[SourceFile], facts: Mapping[str, FileFacts]) -> list[Figures]:
    """Return the five modules that import most modules of the product at run time."""
    modules = {file.module for file in product}
    rows: list[Figures] = []
    for file in product:
        found = facts[file.place]
        runtime = _modules_among(found.runtime_imports, modules) - {file.module}
        everything = runtime | _modules_among(found.typing_imports, modules) - {file.module}
        rows.append({"module": file.module, "runtime": len(runtime), "with_typing": len(everything)})
    return sorted(rows, key=lambda row: (-int(str(row["runtime"])), str(row["module"])))[:TOP]


def _modules_among(names: set[str], modules: set[str]) -> set[str]:
    """Return the modules that dotted names mean; a name within a module means the module."""
    found = {name if name in modules else name.rpartition(".")[0] for name in names}
    return found & modules


def _duplicates(product: Sequence[SourceFile]) -> Figures:
    found = find_duplicates({file.place: file.text for file in product})
    return {
        "pairs": len(found),
        "pairs_of_the_same_text": sum(each.same_text for each in found),
        "lines": sum(each.lines for each in found),
        "worst": [asdict(each) for each in found[:WORST]],
    }


def _loggers(product: Sequence[SourceFile], facts: Mapping[str, FileFacts]) -> dict[str, int]:
    """Return the number of uses of each spelling of a module's logger."""
    spellings = Counter(f"{name} = {maker}" for file in product for name, maker in facts[file.place].loggers)
    return dict(spellings.most_common())
