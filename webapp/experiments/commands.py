"""Commands that launch the same run: for the shell, for curl."""

import json
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

import tomlkit

from training_core.config.sweeps import SEED


def launch_command(preset: str, overrides: Mapping[str, Any]) -> str:
    """`troupe launch PRESET key=value …`."""
    return _with_overrides(f"troupe launch {shlex.quote(preset)}", overrides)


def fork_command(run_id: str, iteration: int, overrides: Mapping[str, Any]) -> str:
    """`troupe fork RUN ITERATION key=value …`."""
    return _with_overrides(f"troupe fork {run_id} {iteration}", overrides)


def _with_overrides(command: str, overrides: Mapping[str, Any]) -> str:
    words = [shlex.quote(f"{path}={spelled(value)}") for path, value in overrides.items()]
    return " \\\n  ".join([command, *words])


def curl_command(url: str, body: Mapping[str, Any]) -> str:
    """Return a POST to the API; the token comes from the environment."""
    return (
        f"curl -X POST {shlex.quote(url)} \\\n"
        '  -H "Authorization: Bearer $TROUPE_TOKEN" \\\n'
        "  -H 'Content-Type: application/json' \\\n"
        f"  -d {shlex.quote(json.dumps(body))}"
    )


def spelled(value: Any) -> str:
    """Return the value as TOML, the syntax of commands and URLs; plain words stay unquoted."""
    text = _inline(value)
    return value if isinstance(value, str) and _reads_as_itself(value) else text


def _inline(value: Any) -> str:
    """Return a value as one line of TOML."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{name} = {_inline(item)}" for name, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_inline(item) for item in value) + "]"
    return str(tomlkit.item(value).as_string())


def _reads_as_itself(value: str) -> bool:
    """Whether `key=value` is parsed as this exact string, because it is not valid TOML."""
    return (
        value.replace("_", "").replace("-", "").isalnum()
        and value.isascii()
        and value[0].isalpha()
        and value not in ("true", "false", "inf", "nan")
    )


def sweep_command(
    preset: str,
    overrides: Mapping[str, Any],
    axes: Mapping[str, Sequence[Any]],
    method: str,
    *,
    separate_processes: bool = False,
) -> str:
    """`troupe sweep launch PRESET key=value … --grid field=value,value --seeds 0,1,2`."""
    words = [f"{path}={spelled(value)}" for path, value in overrides.items()]
    for path, values in axes.items():
        text = ",".join(spelled(value) for value in values)
        words += ["--seeds", text] if path == SEED else [f"--{method}", f"{path}={text}"]
    flags = ["--separate-processes"] if separate_processes else []
    return " \\\n  ".join(["troupe sweep launch " + shlex.quote(preset), *_paired(words), *flags])


def _paired(words: Sequence[str]) -> list[str]:
    """Join each option with its value, to keep them on one line."""
    lines: list[str] = []
    for word in words:
        if lines and lines[-1] in ("--seeds", "--grid", "--list"):
            lines[-1] += f" {shlex.quote(word)}"
        else:
            lines.append(shlex.quote(word))
    return lines
