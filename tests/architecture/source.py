"""The source tree as the architecture tests see it."""

import ast
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("training_core", "workers", "troupe_client", "webapp")


def modules(root: Path = ROOT) -> dict[str, Path]:
    """Every module of our packages by dotted name, in the checkout or in a copy."""
    found = {}
    for package in PACKAGES:
        for path in sorted((root / package).rglob("*.py")):
            parts = path.relative_to(root).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


@cache
def tree(path: Path) -> ast.Module:
    """A file's syntax tree."""
    return ast.parse(path.read_text())


def imports(path: Path, *, top_level_only: bool = False) -> set[str]:
    """Dotted names that a file imports; `from a import b` counts as a and a.b. TYPE_CHECKING blocks count too,
    unless only what runs at import is wanted."""
    found: set[str] = set()
    for node in _nodes(tree(path), top_level_only):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            found.add(node.module)
            found.update(f"{node.module}.{alias.name}" for alias in node.names)
    return found


def _nodes(module: ast.Module, top_level_only: bool) -> list[ast.AST]:
    if not top_level_only:
        return list(ast.walk(module))
    nodes: list[ast.AST] = []
    waiting: list[ast.AST] = list(module.body)
    while waiting:
        node = waiting.pop()
        nodes.append(node)
        type_checking = isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and not type_checking:
            waiting.extend(ast.iter_child_nodes(node))
    return nodes


def functions(path: Path) -> list[tuple[str, int]]:
    """(name, length in lines) of every function of a file, docstrings left out."""
    found = []
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            first = node.body[0]
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                length -= (first.end_lineno or first.lineno) - first.lineno + 1
            found.append((node.name, length))
    return found
