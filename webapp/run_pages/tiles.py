"""The key figures at the top of a run's overview."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from training_core.config.files import parse_config
from training_core.config.kinds import has_networks
from training_core.config.marl.run import MarlConfig
from training_core.errors import ConfigError
from webapp.common.tones import policy_tones, role_tones

Columns = Mapping[str, Any]


@dataclass(frozen=True)
class Figure:
    """The last value of one series, and its change."""

    key: str
    value: float | str | None
    under: str = ""
    """Caption below it: a unit, or a policy's name."""
    tone: int | None = None
    since: str = ""
    """Reference of the change; empty: the change is not shown."""
    change: float | None = None
    up_is_good: bool = False


@dataclass(frozen=True)
class Tile:
    """A title with one or more figures."""

    label: str
    unit: str
    figures: list[Figure]


def overview_tiles(config: Mapping[str, Any], series: Mapping[str, Columns]) -> list[Tile]:
    """Return the last values, with the change since the base model or the start if larger is better."""
    policies, roles = policy_tones(config), role_tones(config)
    if has_networks(config):
        return _network_tiles(series, policies, roles, _whose(config))
    return [
        Tile("Success, greedy", "", [_figure(series, "eval/success", since="base")]),
        Tile("Success, sampled", "", [_figure(series, "eval_sampled/success", since="base")]),
        Tile("Return per episode", "", [_figure(series, "train/return", since="start")]),
        Tile("Reward by role", "", _each(series, "train/{}/reward", roles)),
        Tile("Entropy", "nats per token", _each(series, "policy/{}/entropy", policies)),
        Tile("KL to base", "nats per token", _each(series, "policy/{}/kl", policies)),
        Tile("Tokens per second", "", [_plain(series, "rollout/tokens_per_second", "rollout")]),
        Tile("Staleness", "", [_plain(series, "rollout/staleness", "versions")]),
        Tile(
            "Errors",
            "of the last iteration",
            [
                _plain(series, "rollout/failed", "episodes failed"),
                _plain(series, "rollout/truncated", "truncated responses"),
            ],
        ),
    ]


def _whose(config: Mapping[str, Any]) -> str:
    """Return the role whose return is shown for small networks with several sides; empty if the config cannot be read."""
    if len(config.get("team", {}).get("roles", {})) < 2:
        return ""
    try:
        parsed = parse_config(config)
    except ConfigError:
        return ""
    return f" of {parsed.returned_role}" if isinstance(parsed, MarlConfig) else ""


def _network_tiles(
    series: Mapping[str, Columns], policies: Mapping[str, int], roles: Mapping[str, int], whose: str
) -> list[Tile]:
    """Return the tiles of small networks, which have no tokens."""
    return [
        Tile(f"Return{whose}, greedy", "", [_figure(series, "eval/return", since="start")]),
        Tile(f"Return{whose}, sampled", "", [_figure(series, "eval_sampled/return", since="start")]),
        Tile(f"Return{whose} in training", "", [_figure(series, "train/return", since="start")]),
        Tile("Return by role, greedy", "", _each(series, "eval/{}/reward", roles)),
        Tile("Entropy", "nats per action", _each(series, "policy/{}/entropy", policies)),
        Tile(
            "Explained variance",
            "of returns by values",
            _each(series, "policy/{}/explained_variance", policies),
        ),
        Tile("Episode length", "", [_plain(series, "eval/length", "steps")]),
        Tile(
            "Environment steps",
            "",
            [
                _plain(series, "progress/env_steps", "in all"),
                _plain(series, "rollout/env_steps_per_second", "per second"),
            ],
        ),
        Tile(
            "Failed episodes",
            "of the last iteration",
            [_plain(series, "rollout/failed", "training"), _plain(series, "eval/failed", "evaluation")],
        ),
    ]


def tile_keys(config: Mapping[str, Any]) -> list[str]:
    """Return the metrics of the tiles."""
    return [figure.key for tile in overview_tiles(config, {}) for figure in tile.figures]


def _each(series: Mapping[str, Columns], pattern: str, tones: Mapping[str, int]) -> list[Figure]:
    """Return one figure per role or policy; at most three."""
    keys = {name: pattern.format(name) for name in tones}
    return [Figure(key, _last(series, key), name, tones[name]) for name, key in list(keys.items())[:3]]


def _plain(series: Mapping[str, Columns], key: str, under: str) -> Figure:
    return Figure(key, _last(series, key), under)


def _figure(series: Mapping[str, Columns], key: str, since: str) -> Figure:
    finite = [value for value in series.get(key, {}).get("values", []) if not isinstance(value, str)]
    change = finite[-1] - finite[0] if len(finite) > 1 else None
    return Figure(key, _last(series, key), since=since, change=change, up_is_good=True)


def _last(series: Mapping[str, Columns], key: str) -> float | str | None:
    values = series.get(key, {}).get("values", [])
    return values[-1] if values else None
