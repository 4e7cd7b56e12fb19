"""Every `troupe ...` command that source, pages or documents quote is one that the command line accepts."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from tests.architecture.source import ROOT
from troupe_client.cli.app import app
from troupe_client.cli.groups import paths

FOLDERS = (
    "docs",
    "docker",
    "examples",
    "templates",
    "static",
    "training_core",
    "workers",
    "webapp",
    "troupe_client",
)
ENDINGS = (".md", ".py", ".html", ".js", ".toml", ".sh", ".yml")
PROGRAM = typer.main.get_command(app)
QUOTES = (
    re.compile(r"`(?:\$ )?(?:\.venv/bin/)?(troupe [a-z][^`\n]*)`"),
    re.compile(r"<code>(troupe [^<]+)</code>|<pre[^>]*>(troupe [^<]+)</pre>"),
    re.compile(r": (troupe [a-z][^\"\n]*)\""),
    re.compile(r"^(?:\$ )?(?:\.venv/bin/)?(troupe [a-z][^\n|]*)", re.MULTILINE),
)
"""Whole commands: in backticks, in HTML, after a colon at the end of a message, on a line of a block."""
WORDS = re.compile(r"(?<![\w./@:=-])troupe ((?:[a-z][a-z-]*(?: |\b))+)")
NOT_COMMANDS = {"import": "TensorBoard's users import troupe", "make": "containers make run as user troupe"}


def files() -> Iterator[Path]:
    yield from ROOT.glob("*.md")
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in ENDINGS and path != Path(__file__) and "golden" not in path.parts:
                yield path


def text_of(path: Path) -> str:
    """The file with continued lines and split strings joined."""
    text = path.read_text().replace("\\\n", " ")
    return re.sub(r"\"\n\s*f?\"", "", text)


def problem(quoted: str) -> str:
    """What the command line refuses about a quoted command; empty if nothing. Nothing is run."""
    text = re.sub(r"\{[^}]*\}|…|\[[^\]]*\]", "1", quoted.replace("$", "").split(" #")[0].split("&&")[0])
    words = [re.sub(r"^[A-Z_]{2,}$", "1", word) for word in shlex.split(text)[1:]]
    command: Any = PROGRAM
    while words and hasattr(command, "commands"):
        name = words.pop(0)
        if name not in command.commands:
            return f"no command {name!r}"
        command = command.commands[name]
    if hasattr(command, "commands"):
        return ""
    options = {name for parameter in command.params for name in parameter.opts}
    if options.issuperset(words):
        return ""  # the name, perhaps with names of options, in a sentence
    for option in command.params:
        if getattr(option, "prompt", None) and option.opts[0] not in words:
            words += [option.opts[0], "1"]
    try:
        command.make_context(command.name, words)
    except Exception as error:
        return str(error) or repr(error)
    return ""


def test_every_quoted_command_is_accepted() -> None:
    wrong = {}
    for path in files():
        for pattern in QUOTES:
            for groups in pattern.finditer(text_of(path)):
                quoted = next(filter(None, groups.groups()))
                if error := problem(quoted):
                    wrong[f"{path.relative_to(ROOT)}: {quoted}"] = error
    assert wrong == {}


def test_every_mention_begins_with_the_name_of_a_command() -> None:
    known, wrong = set(paths(PROGRAM)), set()
    groups = {name.split()[0] for name in known if " " in name}
    for path in files():
        for words in WORDS.findall(text_of(path)):
            first, *rest = words.split()
            if first in groups and rest and f"{first} {rest[0]}" not in known:
                wrong.add(f"{path.relative_to(ROOT)}: troupe {first} {rest[0]}")
            elif first not in groups and first not in known and first not in NOT_COMMANDS:
                wrong.add(f"{path.relative_to(ROOT)}: troupe {first}")
    assert wrong == set()


def test_every_command_is_in_the_documents() -> None:
    text = "\n".join(text_of(path) for path in files() if path.suffix == ".md")
    rows = dict(re.findall(r"^\| `troupe ([a-z-]+)` \| (.*) \|$", text, re.MULTILINE))
    missing = [path for path in paths(PROGRAM) if not re.search(rf"troupe {path}\b", text)]
    missing = [path for path in missing if f"`{path.split()[-1]}`" not in rows.get(path.split()[0], "")]
    assert missing == []
