"""Measure one Python file: lines by kind, functions, classes, imports, logging and docstrings."""

from __future__ import annotations

import ast
import io
import tokenize
from dataclasses import dataclass, field

_QUESTION_WORDS = ("What", "Who", "Where", "How", "That", "Whoever", "Whatever")
_LOGGERS = {"getLogger": "logging.getLogger", "get_logger": "structlog.get_logger"}
Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(slots=True)
class FileFacts:
    """The counts of a file."""

    lines: int = 0
    header_lines: int = 0
    """From the first line to the last of docstring, imports, TYPE_CHECKING block and ``__all__``."""
    comment_lines: int = 0
    """Lines that hold a comment and nothing else."""
    docstring_lines: int = 0
    """Lines of strings that stand alone: docstrings, and those under a field."""
    definitions: int = 0
    """Classes and functions."""
    documented: int = 0
    """Those with a docstring."""
    functions: list[tuple[int, str]] = field(default_factory=list)
    """Length and qualified name of each function."""
    public_classes: list[str] = field(default_factory=list)
    """Names of classes at the top of the module."""
    methods: list[tuple[str, str]] = field(default_factory=list)
    """Class and name of each public method."""
    runtime_imports: set[str] = field(default_factory=set)
    """Modules and names that are imported, as dotted names; imports within functions included."""
    typing_imports: set[str] = field(default_factory=set)
    """Those of TYPE_CHECKING blocks."""
    untyped_dicts: int = 0
    """Uses of ``dict[str, Any]``."""
    loggers: list[tuple[str, str]] = field(default_factory=list)
    """Name and maker of each logger."""
    has_all: bool = False
    all_lines: int = 0
    has_type_checking: bool = False
    type_checking_lines: int = 0
    question_docstrings: list[str] = field(default_factory=list)
    """First lines of docstrings that begin with What, Who, Where, How or That."""


def facts_of(text: str, module: str, *, is_package: bool = False) -> FileFacts:
    """Measure the source of ``module``, whose name resolves relative imports."""
    tree = ast.parse(text)
    facts = FileFacts(lines=len(text.splitlines()))
    facts.comment_lines = _comment_lines(text)
    _measure_head(tree, facts)
    package = module if is_package else module.rpartition(".")[0]
    _Visitor(facts, package).visit(tree)
    return facts


def _comment_lines(text: str) -> int:
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return sum(
        token.type == tokenize.COMMENT and not token.line[: token.start[1]].strip() for token in tokens
    )


def _measure_head(tree: ast.Module, facts: FileFacts) -> None:
    in_head = True
    for node in tree.body:
        is_all, is_typing = _is_all(node), is_type_checking(node)
        if is_all:
            facts.has_all = True
            facts.all_lines += _length(node)
        if is_typing:
            facts.has_type_checking = True
            facts.type_checking_lines += _length(node)
        in_head = in_head and (
            is_all or is_typing or _is_text(node) or isinstance(node, ast.Import | ast.ImportFrom)
        )
        if in_head:
            facts.header_lines = node.end_lineno or node.lineno


class _Visitor(ast.NodeVisitor):
    """Walks a module and knows in which classes and functions it is."""

    def __init__(self, facts: FileFacts, package: str) -> None:
        self._facts = facts
        self._package = package
        self._around: list[ast.AST] = []
        self._typing = False

    def visit_Module(self, node: ast.Module) -> None:
        self._note_docstring(node)
        self.generic_visit(node)

    def visit_If(self, node: ast.If) -> None:
        outside = self._typing
        self._typing = outside or is_type_checking(node)
        for child in node.body:
            self.visit(child)
        self._typing = outside
        self.visit(node.test)
        for child in node.orelse:
            self.visit(child)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        if not self._around and not node.name.startswith("_"):
            self._facts.public_classes.append(node.name)
        self._define(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self._function(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self._function(node)

    def _function(self, node: Function) -> None:
        names = [outer.name for outer in self._around if isinstance(outer, ast.ClassDef | Function)]
        self._facts.functions.append((_length(node), ".".join([*names, node.name])))
        if self._around and isinstance(self._around[-1], ast.ClassDef) and not node.name.startswith("_"):
            self._facts.methods.append((self._around[-1].name, node.name))
        self._define(node)

    def _define(self, node: ast.ClassDef | Function) -> None:
        self._facts.definitions += 1
        self._facts.documented += self._note_docstring(node)
        self._around.append(node)
        self.generic_visit(node)
        self._around.pop()

    def _note_docstring(self, node: ast.Module | ast.ClassDef | Function) -> bool:
        docstring = ast.get_docstring(node)
        first = docstring.splitlines()[0] if docstring else ""
        if first.split(" ")[0].rstrip(",:") in _QUESTION_WORDS:
            self._facts.question_docstrings.append(first)
        return docstring is not None

    def visit_Expr(self, node: ast.Expr) -> None:
        if _is_text(node):
            self._facts.docstring_lines += _length(node)
        self.generic_visit(node)

    def visit_Import(self, node: ast.Import) -> None:
        self._imports().update(alias.name for alias in node.names)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        source = node.module or ""
        if node.level:
            parts = self._package.split(".")
            source = ".".join([*parts[: len(parts) - node.level + 1], *filter(None, [node.module])])
        self._imports().update(f"{source}.{alias.name}" for alias in node.names)

    def _imports(self) -> set[str]:
        return self._facts.typing_imports if self._typing else self._facts.runtime_imports

    def visit_Subscript(self, node: ast.Subscript) -> None:
        self._facts.untyped_dicts += ast.unparse(node) == "dict[str, Any]"
        self.generic_visit(node)

    def visit_Assign(self, node: ast.Assign) -> None:
        if isinstance(node.value, ast.Call):
            maker = ast.unparse(node.value.func).rpartition(".")[2]
            if maker in _LOGGERS and isinstance(node.targets[0], ast.Name):
                self._facts.loggers.append((node.targets[0].id, _LOGGERS[maker]))
        self.generic_visit(node)


def is_type_checking(node: ast.AST) -> bool:
    """Return whether the node is an ``if TYPE_CHECKING:`` block."""
    return isinstance(node, ast.If) and ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING")


def _is_all(node: ast.AST) -> bool:
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    return any(isinstance(target, ast.Name) and target.id == "__all__" for target in targets)


def _is_text(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def _length(node: ast.stmt) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1
