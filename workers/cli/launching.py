"""Presets, files and overrides as the command line names them.

Imported by the commands that need it only: building the config's classes takes a third of a second.
"""

import sys
from pathlib import Path
from typing import Any

from training_core.config.files import (
    apply_overrides,
    parse_config,
    parse_overrides,
    preset_names,
    read_preset,
    read_toml,
)
from training_core.config.kinds import AnyConfig
from training_core.errors import ConfigError


def launch_body(source: str, words: list[str]) -> dict[str, Any]:
    """What the API takes: a preset goes by name, a file goes whole with overrides applied. Raises ConfigError.

    A file is checked here, so that mistakes in it need no server to be seen.
    """
    changes = parse_overrides(words)
    if not _is_file(source):
        read_preset(source)
        return {"preset": source, "overrides": changes}
    tree = apply_overrides(_read(source), changes)
    parse_config(tree)
    return {"config": tree}


def config_of(source: str, words: list[str]) -> AnyConfig:
    """A preset or file under overrides. Raises ConfigError."""
    tree = _read(source) if _is_file(source) else read_preset(source)
    return parse_config(apply_overrides(tree, parse_overrides(words)))


def local_command(source: str, words: list[str], home: Path) -> list[str]:
    """The command line that plays a run in one process. Raises ConfigError, before torch is imported."""
    changes = parse_overrides(words)
    tree = _read(source) if _is_file(source) else read_preset(source)
    parse_config(apply_overrides(tree, changes))
    named = [source] if _is_file(source) else ["--preset", source]
    return [sys.executable, "-m", "workers.run", *named, "--local", *words, "--home", str(home)]


def presets() -> dict[str, dict[str, Any]]:
    """Every preset's tree, by name."""
    return {name: read_preset(name) for name in preset_names()}


def _is_file(source: str) -> bool:
    return Path(source).suffix == ".toml"


def _read(source: str) -> dict[str, Any]:
    try:
        return read_toml(Path(source).read_text())
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError({source: f"cannot be read: {error}"}) from error
