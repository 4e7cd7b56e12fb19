"""Presets, files and overrides as the command line names them.

Import it inside the commands that need it: building the config classes takes a third of a second.
"""

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from rich.markup import escape

from training_core.config.effects import Unused, questionable_settings
from training_core.config.files import (
    apply_overrides,
    expected_of,
    has_words,
    parse_config,
    parse_overrides,
    preset_names,
    read_preset,
    read_toml,
    searched_text,
)
from training_core.config.kinds import AnyConfig, config_kind
from training_core.errors import ConfigError


def launch_body(source: str, words: list[str]) -> dict[str, Any]:
    """Return the body of a launch request: the name of a preset with overrides, or the whole config of a file.

    A file is checked here, so that its errors are reported without a server. Raises ConfigError.
    """
    changes = parse_overrides(words)
    if not _is_file(source):
        read_preset(source)
        return {"preset": source, "overrides": changes}
    tree = apply_overrides(_read(source), changes)
    parse_config(tree)
    return {"config": tree}


def config_of(source: str, words: list[str]) -> AnyConfig:
    """The config of a preset or file with overrides applied. Raises ConfigError."""
    tree = _read(source) if _is_file(source) else read_preset(source)
    return parse_config(apply_overrides(tree, parse_overrides(words)))


def unused(source: str, words: list[str]) -> list[Unused]:
    """Settings without effect of a preset or file with overrides applied. Raises ConfigError."""
    return questionable_settings(config_of(source, words))


def local_command(
    source: str, words: list[str], home: Path, *, seeds: str = "", check: bool = False, as_json: bool = False
) -> list[str]:
    """The command line that runs an experiment in one process, or only checks it. Raises ConfigError before torch is imported."""
    changes = parse_overrides(words)
    tree = _read(source) if _is_file(source) else read_preset(source)
    parse_config(apply_overrides(tree, changes))
    named = [source] if _is_file(source) else ["--preset", source]
    options = ["--check", *(["--json"] if as_json else [])] if check else ["--local"]
    options += ["--seeds", seeds] if seeds else []
    return [sys.executable, "-m", "workers.run", *named, *options, *words, "--home", str(home)]


def presets(words: str = "") -> dict[str, dict[str, Any]]:
    """The config tree of every preset that contains all `words`, by name."""
    trees = {name: read_preset(name) for name in preset_names()}
    return {
        name: tree
        for name, tree in trees.items()
        if has_words(searched_text(name, _description(tree), config_kind(tree).label), words)
    }


def preset_lines(trees: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """Presets under a heading for each kind of agents and task, in rich's markup."""
    last_heading = ""
    for name, tree in trees.items():
        about = expected_of(name)
        heading = config_kind(tree).label + (f": {about.task}" if about else "")
        if heading != last_heading:
            yield ("\n" if last_heading else "") + f"[bold cyan]{heading}[/bold cyan]"
            last_heading = heading
        yield f"[bold]{name}[/bold]  {escape(_description(tree))}"
        if about:
            yield f"  {about.purpose}\n  takes {about.time}; {about.result}"


def _description(tree: Mapping[str, Any]) -> str:
    return str(tree.get("run", {}).get("description", ""))


def _is_file(source: str) -> bool:
    return Path(source).suffix == ".toml"


def _read(source: str) -> dict[str, Any]:
    try:
        return read_toml(Path(source).read_text())
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError({source: f"cannot be read: {error}"}) from error
