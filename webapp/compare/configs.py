"""Differences between the configs of runs."""

from collections.abc import Mapping, Sequence
from typing import Any

from webapp.compare.groups import differing, groups_make
from webapp.provenance.services import provenance_flat
from webapp.runs.config_differences import flatten
from webapp.runs.facts import packages_of
from webapp.runs.models import Run

RECORDED = ("packages.", "code.", "data.", "machine.")
"""Prefixes of fields that are not of the config, but of what the driver and the launch recorded."""
MOST_VALUES = 12
"""Maximum number of different values shown per group."""


def configs_differ(runs: Sequence[Run], by: str, everything: bool = False) -> dict[str, Any]:
    """Return {"groups": [{"group", "label", "tone", "n"}], "same": number of fields equal in all runs, "fields": [{"path",
    "same", "cells": [{"values": distinct values in the group, "more": number of omitted values, "absent": bool}]}]}.

    Includes the fields that differ, in the order of the config; with `everything` all fields. Versions of packages are
    fields below `packages`, the provenance below `code`, `data` and `machine`. Raises ConfigError for too many groups.
    """
    groups = groups_make(runs, by)
    flat = flat_configs(runs)
    different = set(differing(list(flat.values())))
    paths = list(dict.fromkeys(path for config in flat.values() for path in config))
    fields = [
        {
            "path": path,
            "same": path not in different,
            "cells": [_cell([flat[run.pk] for run in group.runs], path) for group in groups],
        }
        for path in paths
        if everything or path in different
    ]
    return {
        "groups": [
            {"group": group.key, "label": group.label, "tone": group.tone, "n": len(group.runs)}
            for group in groups
        ],
        "same": len(paths) - len(different),
        "fields": fields,
    }


def flat_configs(runs: Sequence[Run]) -> dict[str, dict[str, Any]]:
    """Return run -> dotted path -> value of its config; below `packages` the driver's package versions, below `code`, `data` and
    `machine` its provenance.
    """
    provenance = provenance_flat(runs)
    return {
        run.pk: flatten(run.config)
        | {f"packages.{name}": version for name, version in packages_of(run).items()}
        | provenance.get(run.pk, {})
        for run in runs
    }


def _cell(configs: Sequence[Mapping[str, Any]], path: str) -> dict[str, Any]:
    values: list[Any] = []
    for config in configs:
        if path in config and config[path] not in values:
            values.append(config[path])
    absent = any(path not in config for config in configs)
    return {"values": values[:MOST_VALUES], "more": max(0, len(values) - MOST_VALUES), "absent": absent}


def sections_of(difference: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Group the fields by the first part of their path: [{"name", "fields", "different"}]."""
    sections: dict[str, list[dict[str, Any]]] = {}
    for field in difference["fields"]:
        sections.setdefault(field["path"].split(".")[0], []).append(field)
    return [
        {"name": name, "fields": fields, "different": sum(not field["same"] for field in fields)}
        for name, fields in sections.items()
    ]
