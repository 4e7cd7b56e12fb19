"""What describes a run: its limits, and the shortening of what exceeds them. `troupe.init` and the importers refuse no description.

A description helps people to find a run and to tell it from others; the run is worth more than the end of a long name.
"""

import json
from collections.abc import Mapping
from typing import Any

MAX_NAME = 120
"""Characters of a run's name."""
MAX_NOTES = 4000
"""Characters of its notes."""
MAX_TAGS = 20
MAX_WORD = 60
"""Characters of a tag, a group, a role, an algorithm and an environment."""
MAX_TEAM = 64
"""Roles of a team."""
MAX_HEADLINE = 12
"""Metrics that the overview shows first."""
MAX_CONFIG = 512 << 10
"""Bytes of a config as JSON."""
MAX_REQUEST = 1000 << 10
"""Bytes of a request as JSON: what the other parts leave of it bounds a config, too."""
LEAST_CONFIG = 64 << 10
"""Bytes that a config may always have."""
MAX_LEVELS = 24
"""Levels of nesting of a config: 32 are stored, and some of them are around it."""
LARGEST_STEP = 2**63 - 1
SMALLEST_SHARE = 64
"""Bytes: of a mapping with too many fields, those that have no room for so much are left out."""
CUT = "..."
_TEXTS = {
    "name": MAX_NAME,
    "notes": MAX_NOTES,
    "group": MAX_WORD,
    "algorithm": MAX_WORD,
    "environment": MAX_WORD,
    "role": MAX_WORD,
}


def storable(text: str) -> str:
    """Return a text that the database can store: NUL and halves of surrogate pairs are replaced."""
    return text.encode("utf-8", "replace").decode().replace("\0", "\ufffd")


def shortened(request: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Return the request for a client run with a description that the server takes, and what is shortened."""
    body, cut = dict(request), []
    for field, most in _TEXTS.items():
        if field in body:
            text = storable(str(body[field] or ""))
            body[field] = text[:most]
            if len(text) > most:
                cut.append(f"{field} ({len(text):,} characters, {most:,} are stored)")
    tags = [storable(str(tag)) for tag in body.get("tags") or ()]
    body["tags"] = list(dict.fromkeys(tag[:MAX_WORD] for tag in tags))
    if longer := [tag for tag in tags if len(tag) > MAX_WORD]:
        cut.append(f"{len(longer)} tags of more than {MAX_WORD} characters")
    if len(body["tags"]) > MAX_TAGS:
        cut.append(f"tags ({len(body['tags'])}, {MAX_TAGS} are stored)")
        del body["tags"][MAX_TAGS:]
    team = {storable(str(role)): storable(str(policy)) for role, policy in (body.get("team") or {}).items()}
    if len(team) > MAX_TEAM:
        cut.append(f"team ({len(team)} roles, {MAX_TEAM} are stored)")
    body["team"] = dict(list(team.items())[:MAX_TEAM])
    headline = body.get("headline") or []
    if len(headline) > MAX_HEADLINE:
        cut.append(f"headline ({len(headline)} metrics, {MAX_HEADLINE} are stored)")
    body["headline"] = headline[:MAX_HEADLINE]
    body["provenance"] = _storable_tree(body.get("provenance") or {})
    config = body.pop("config", None) or {}
    room = max(min(MAX_CONFIG, MAX_REQUEST - _size(body)), LEAST_CONFIG)
    body["config"], parts = config_shortened(config, room)
    return body, cut + parts


def config_shortened(config: Mapping[str, Any], room: int = MAX_CONFIG) -> tuple[dict[str, Any], list[str]]:
    """Return a config of JSON values within MAX_LEVELS and `room` bytes, and what is shortened. Its largest parts are cut first."""
    cut = []
    flat = _shallow(config, MAX_LEVELS)
    if flat != config:
        cut.append(f"config (nested deeper than {MAX_LEVELS} levels)")
    if (size := _size(flat)) > room:
        cut.append(f"config ({size:,} bytes, {room:,} are stored)")
        flat = _fitted(flat, room)
    return dict(flat), cut


def _storable_tree(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {storable(str(key)): _storable_tree(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_storable_tree(item) for item in value]
    return storable(value) if isinstance(value, str) else value


def _shallow(value: Any, levels: int) -> Any:
    """The value, with the text of what is nested deeper."""
    if isinstance(value, Mapping):
        return {key: _shallow(item, levels - 1) for key, item in value.items()} if levels else CUT
    if isinstance(value, list):
        return [_shallow(item, levels - 1) for item in value] if levels else CUT
    return value


def _size(value: Any) -> int:
    return len(json.dumps(value, default=str))


def _fitted(value: Any, room: int) -> Any:
    """The value in about `room` bytes: fields that need less than their equal share leave the rest to the others."""
    if (size := _size(value)) <= room:
        return value
    if not isinstance(value, Mapping):
        return f"{CUT} {type(value).__name__} of {size:,} bytes"
    sizes = sorted((_size(item) + _size(key) + 4, key) for key, item in value.items())
    shares: dict[str, int] = {}
    for position, (needed, key) in enumerate(sizes):
        share = min(needed, max(room // (len(sizes) - position), SMALLEST_SHARE))
        if share > room:
            break
        shares[key] = share
        room -= shares[key]
    stored = {
        key: _fitted(item, shares[key] - _size(key) - 4) for key, item in value.items() if key in shares
    }
    return stored | ({CUT: f"{len(value) - len(stored):,} more fields"} if len(stored) < len(value) else {})
