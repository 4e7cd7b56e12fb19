"""Words that this field does not use, in names and in prose. `python -m tests.architecture.words` lists them, `make lint` runs it.

Names of modules, classes, functions and annotated fields are split at capitals and underscores; names of variables are whole. Prose is
every line of Python, documents, pages and scripts. A word with a meaning of the field belongs into ALLOWED with its reason.
"""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.architecture.source import ROOT

NAMES = (
    "bury", "buried", "courier", "crew", "desk", "felled", "forest", "journal", "judged", "known", "leftovers", "manner", "noticing",
    "observed", "observing", "outside", "patience", "plot", "seat", "seating", "seats", "sight", "spot", "spots", "telling", "told",
    "unstarted", "untelling", "voice", "wish", "wishes",
)  # fmt: skip
PROSE = (
    "anew", "beside", "lest", "nought", "thereby", "thereof", "whoever", "whom", "whomever", "wishes",
    "a word of", "ahead of time", "are borne", "are told", "for ever", "go on", "goes on", "in the middle of its", "is borne", "is told",
    "of it all", "one's own", "said so", "says so", "was told", "went on", "what lies", "who comes",
)  # fmt: skip
LOCALS = ("each", "found", "given", "kept", "place", "said", "told")
"""Names of variables that fit any value, so that they say nothing."""
PHRASE = re.compile(rf"(?<![\w-])({'|'.join(PROSE)})(?![\w-])", re.IGNORECASE)
DECLARED = re.compile(r"\b(?:const|let) (\w+)")
WORD = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+")
SUFFIXES = (".py", ".md", ".html", ".toml", ".js")
SKIPPED = ("tests", "var", "own", "build", "dist", "node_modules", "vendor", "migrations")
ALLOWED: dict[tuple[str, str], str] = {
    ("docs/reference/writing.md", "*"): "quotes the words to avoid",
    (
        "training_core/config/experiment.py",
        "patience",
    ): "the field's term of early stopping: run.failure_patience",
    ("training_core/config/rollout.py", "patience"): "the field's term of early stopping",
    (
        "webapp/common/templatetags/components.py",
        "place",
    ): "the place in the navigation, as in the pages' context",
} | {
    (path, "beside"): 'a value of evaluation.mode, "beside"'
    for path in (
        "docs/reference/metrics.md",
        "docs/train/asynchronous.md",
        "training_core/config/evaluation.py",
        "training_core/config/experiment.py",
        "training_core/config/marl.py",
        "training_core/config/run.py",
        "workers/sizing/placement.py",
    )
}
"""(file, word) -> why the word is right there. "*" stands for every word."""


def main() -> int:
    """Print every finding; the exit status is 1 if there is one."""
    findings = [finding for path in sources() for finding in words_of(path)]
    print("\n".join(findings) or "no unusual words")
    return int(bool(findings))


def sources() -> Iterator[Path]:
    """Files of the project whose text is ours."""
    for path in sorted(ROOT.rglob("*")):
        parts = path.relative_to(ROOT).parts
        hidden = any(part.startswith(".") or part in SKIPPED or part.endswith(".egg-info") for part in parts)
        if path.suffix in SUFFIXES and not hidden and path.is_file() and not _below_a_link(path):
            yield path


def _below_a_link(path: Path) -> bool:
    """Whether the file is listed under another name too: webapp/static and webapp/templates are links."""
    return any(parent.is_symlink() for parent in path.parents)


def words_of(path: Path) -> Iterator[str]:
    """Findings of one file, as "FILE:LINE: WORD"."""
    name = path.relative_to(ROOT).as_posix()
    text = path.read_text()
    hits = [(number, word) for number, word in _names(path, text) if word in NAMES]
    hits += [(number, word) for number, word in _variables(path, text) if word in LOCALS]
    for number, line in enumerate(text.splitlines(), 1):
        hits += [(number, match[1].lower()) for match in PHRASE.finditer(line)]
    for number, word in sorted(set(hits)):
        if not ({(name, word), (name, "*")} & ALLOWED.keys()):
            yield f"{name}:{number}: {word}"


def _names(path: Path, text: str) -> Iterator[tuple[int, str]]:
    """(line, word) of the names that the file defines."""
    yield from ((1, word) for word in _split(path.stem))
    if path.suffix != ".py":
        return
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield from ((node.lineno, word) for word in _split(node.name))
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield from ((node.lineno, word) for word in _split(node.target.id))


def _variables(path: Path, text: str) -> Iterator[tuple[int, str]]:
    """(line, name) of the variables and parameters of functions; in scripts, of declared ones."""
    if path.suffix == ".js":
        yield from ((text.count("\n", 0, match.start()) + 1, match[1]) for match in DECLARED.finditer(text))
    if path.suffix != ".py":
        return
    for function in ast.walk(ast.parse(text)):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            for node in ast.walk(function):
                if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                    yield node.lineno, node.id
                elif isinstance(node, ast.arg):
                    yield node.lineno, node.arg


def _split(name: str) -> list[str]:
    return [word.lower() for word in WORD.findall(name)]


if __name__ == "__main__":
    sys.exit(main())
