"""Every block of the documentation is checked by its kind: a program, a config, JSON, commands, or a picture in text.

Commands of `troupe` are parsed in tests/docs/test_commands.py. Every command and program runs in
tests/end_to_end/test_documents_run.py; answers that docs/reference/api.md shows are compared in tests/webapp/api/test_documented_calls.py.
"""

import json
import re
import shlex
from typing import Any

import pytest

from tests.architecture.source import ROOT
from tests.docs.fences import PAGES, Fence, fences, kind
from tests.docs.test_commands import problem
from training_core.config.files import parse_config, preset_names, read_preset, read_toml
from training_core.errors import ConfigError
from workers import run

ALL = [fence for page in PAGES for fence in fences(page)]


def of_kind(name: str) -> list[Fence]:
    return [fence for fence in ALL if kind(fence) == name]


def lines(fence: Fence) -> list[str]:
    """Commands of a block, continued lines joined, without prompts and comments."""
    joined = fence.text.replace("\\\n", " ").splitlines()
    return [line.removeprefix("$ ").split(" #")[0].strip() for line in joined if line.strip()]


def merged(tree: dict[str, Any], part: dict[str, Any]) -> dict[str, Any]:
    """A config with the tables of a block; tables with another `type`, and those of roles and policies, replace the preset's."""
    result = dict(tree)
    for name, value in part.items():
        below = result.get(name)
        keeps = (
            isinstance(value, dict)
            and isinstance(below, dict)
            and value.get("type", below.get("type")) == below.get("type")
        )
        result[name] = merged(below, value) if keeps and isinstance(below, dict) else value
    return result


def candidates(part: dict[str, Any]) -> list[dict[str, Any]]:
    """Configs that a block may be a part of: alone, or over a preset, with its own roles and policies in place of the preset's."""
    trees = [part]
    for preset in preset_names():
        tree = read_preset(preset)
        own = {
            name: {**tree[name], **part[name]} if name == "team" else part[name]
            for name in ("team", "policies")
            if name in part
        }
        trees += [merged(tree, part), merged(tree | own, part)]
    return trees


@pytest.mark.parametrize("fence", of_kind("toml"), ids=str)
def test_a_config_is_accepted_alone_or_over_a_preset(fence: Fence) -> None:
    errors = []
    for tree in candidates(read_toml(fence.text)):
        try:
            parse_config(tree)
            return
        except ConfigError as error:
            errors.append(str(error))
    pytest.fail(f"{fence}: {min(errors, key=len)}")


@pytest.mark.parametrize("fence", of_kind("json"), ids=str)
def test_json_is_valid(fence: Fence) -> None:
    for document in re.split(r"\n(?=\{)", fence.text.strip()):
        json.loads(document)


@pytest.mark.parametrize("fence", of_kind("python"), ids=str)
def test_a_program_compiles_and_its_imports_exist(fence: Fence) -> None:
    compile(fence.text, str(fence), "exec")
    statements = re.findall(
        r"^(?:from training_core|from workers|import troupe)[^(\n]*(?:\([^)]*\))?", fence.text, re.MULTILINE
    )
    exec("\n".join(statements), {})


@pytest.mark.parametrize("fence", of_kind("shell"), ids=str)
def test_commands_are_accepted(fence: Fence, monkeypatch: pytest.MonkeyPatch) -> None:
    targets = set(re.findall(r"^([a-z-]+)(?: [a-z -]+)?:", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for line in lines(fence):
        command = re.sub(r"^(?:[A-Z_]+=\S+ )*(?:\.venv/bin/)?", "", line)
        if command.startswith("troupe "):
            command = re.sub(r" > [\w./-]+$", "", command.split(" | ")[0])
            assert command.startswith("troupe --") or problem(command) == "", command
        elif match := re.match(r"python3? -m workers\.run (.*)", command):
            words = shlex.split(match[1])
            arguments, unknown = run._parser().parse_known_intermixed_args(words)
            run._refuse(unknown)
            if arguments.preset:
                run._config(arguments)
        elif match := re.match(r"python3? -m ([\w.]+)", command):
            path = ROOT / match[1].replace(".", "/")
            module = path.with_suffix(".py").exists() or (path / "__main__.py").exists()
            assert module or match[1] == "pytest", command
        elif match := re.match(r"python3? ([\w./]+\.py)", command):
            assert (ROOT / match[1]).exists(), command
        elif command.startswith("make "):
            assert re.findall(r"^make ([a-z-]+)", command)[0] in targets | {
                "run",
                "stack",
                "install",
                "dev",
            }, command


def test_every_block_is_checked_or_says_why_not() -> None:
    checked = {kind(fence) for fence in ALL}
    assert checked == {"toml", "json", "python", "shell", "text"}
    programs = [
        fence for fence in ALL if fence.language != "text" and kind(fence) == "text" and not fence.reason
    ]
    assert [str(fence) for fence in programs] == []
    assert len(of_kind("shell")) > 60 and len(of_kind("toml")) > 10
