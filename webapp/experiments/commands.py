"""The same run as words to copy: for the shell, for curl."""

import json
import shlex
from collections.abc import Mapping
from typing import Any

import tomlkit


def launch_command(preset: str, overrides: Mapping[str, Any]) -> str:
    """`troupe launch PRESET key=value …`."""
    words = [f"{path}={_spelled(value)}" for path, value in overrides.items()]
    return " \\\n  ".join(["troupe launch " + shlex.quote(preset), *(shlex.quote(word) for word in words)])


def curl_command(url: str, preset: str, overrides: Mapping[str, Any], **more: Any) -> str:
    """A POST to the API; the token comes from the environment."""
    body = {
        "preset": preset,
        "overrides": dict(overrides),
        **{name: value for name, value in more.items() if value},
    }
    return (
        f"curl -X POST {shlex.quote(url)} \\\n"
        '  -H "Authorization: Bearer $TROUPE_TOKEN" \\\n'
        "  -H 'Content-Type: application/json' \\\n"
        f"  -d {shlex.quote(json.dumps(body))}"
    )


def _spelled(value: Any) -> str:
    """As TOML, which is how the command reads it; plain words stay plain."""
    text = tomlkit.item(value).as_string()
    return value if isinstance(value, str) and _reads_as_itself(value) else text


def _reads_as_itself(value: str) -> bool:
    """Whether `key=value` is read as this very string, being no TOML."""
    return (
        value.replace("_", "").replace("-", "").isalnum()
        and value[0].isalpha()
        and value not in ("true", "false", "inf", "nan")
    )
