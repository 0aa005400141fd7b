"""Measure the structure of a source tree, and compare two measurements.

What is measured, for each package that pyproject.toml installs, for the tests, and for other Python:
  sizes      files, lines, median and largest file, median and longest function
  overhead   lines of file headers (docstring, imports, TYPE_CHECKING block, __all__), comments, docstrings
  names      classes with one name, methods of one word that many classes define
  structure  modules that import most, duplicated pieces, dict[str, Any], spellings of a logger
  wording    docstrings that begin with What, Who, Where, How or That; words that docs/glossary.md replaces
  paths      with --paths: the functions that every create, step and training step calls

--paths copies the tree, adds a trace to the copy, starts a service with process boxes and a training of the
demo from it, and lists what each of several creates, steps and training steps called. It takes minutes, needs
the installed extras of service, trainer and vLLM, and leaves nothing behind. Its functions are counted,
never timed: a busy machine does not change them.

examples:
  python -m scripts.structure                                tables of this tree
  python -m scripts.structure --depth 2                      a column for each subpackage
  python -m scripts.structure --paths --json > before.json   all figures, for a later comparison
  python -m scripts.structure --paths --compare before.json  product figures before and after
  git worktree add ../old v0.1 && python -m scripts.structure --tree ../old --json
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
from pathlib import Path

from .call_paths import KINDS, trace_paths
from .commands import PathsError
from .measure import measure
from .table import comparison, tables
from .tree import TreeError, product_packages, read_pages, read_tree

ROOT = Path(__file__).resolve().parents[2]


def main(arguments: list[str] | None = None) -> int:
    """Measure what the arguments ask for and print it; returns the exit status."""
    options = _parser().parse_args(arguments)
    if options.paths:
        # What was started ends with the traced blocks, which a signal must not skip.
        signal.signal(signal.SIGTERM, signal.default_int_handler)
    root = options.tree.resolve()
    try:
        figures = measure(read_tree(root, options.depth), read_pages(root))
        if options.paths:
            folders = [folder.relative_to(root).as_posix() for folder in product_packages(root).values()]
            figures["paths"] = trace_paths(root, sorted(folders), options.paths)
        before = json.loads(options.compare.read_text(encoding="utf-8")) if options.compare else None
    except (TreeError, PathsError, OSError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    if options.json:
        print(json.dumps(figures, indent=1))
    else:
        print(*(comparison(before, figures) if before else tables(figures)), sep="\n")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m scripts.structure",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--tree", type=Path, default=ROOT, help="checkout to measure; this one if missing", metavar="PATH"
    )
    parser.add_argument(
        "--depth", type=int, default=1, help="folders of a package's name: 1 is the top level (default)"
    )
    parser.add_argument(
        "--paths",
        nargs="?",
        const=",".join(KINDS),
        type=lambda text: text.split(","),
        metavar="KINDS",
        help=f"trace calls, too; {','.join(KINDS)} (all if missing)",
    )
    parser.add_argument("--json", action="store_true", help="print JSON in place of tables")
    parser.add_argument(
        "--compare",
        type=Path,
        metavar="FILE",
        help="JSON of an earlier measurement, to print beside this one",
    )
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
