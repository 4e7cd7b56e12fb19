"""Configs of runs: which code, files and checkpoints users may reference in them, which of them differ only by seed
(families), and in which fields they differ: from a preset, or from each other.
"""

import hashlib
import json
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.conf import settings

from training_core.config.files import load_config, parse_config, set_fields
from training_core.config.kinds import AnyConfig
from training_core.config.permitted import (
    PLACES,
    Permitted,
    check_permitted,
    named,
    refusal,
    runs_named,
)
from training_core.errors import ConfigError
from training_core.json_lines import InvalidJson, check_values
from training_core.llm.datasets.folders import project_of
from webapp.accounts.permissions import Person
from webapp.accounts.selectors import projects_visible
from webapp.accounts.services import DEFAULT_PROJECT
from webapp.runs.models import Run, RunSource
from webapp.runs.selectors import SYSTEM_TAGS

_DATA = "a file of a project that you may see: projects/PROJECT/NAME/train.jsonl"


def parse_permitted(tree: Mapping[str, Any]) -> AnyConfig:
    """Parse a config that any user may run who can launch here and see the runs it references.

    Raises ConfigError with one message per field, also for code, files, models and folders that are not allowed by the
    server's owner. Before running or reading anything, call `check_visible` for the checkpoints and data that it names.
    """
    config = parse_config(tree)
    permitted = _permitted()
    check_permitted(config, permitted)
    _check_links(config, permitted)
    return config


def parse_permitted_for(user: Person, tree: Mapping[str, Any]) -> AnyConfig:
    """Like `parse_permitted`, with checkpoints and data only of projects that are visible to this user. Raises ConfigError."""
    config = parse_permitted(tree)
    check_visible(user, config)
    return config


def check_visible(user: Person, config: AnyConfig) -> None:
    """Raises ConfigError if a config names a checkpoint or data of other projects than the user's.

    The message is the same for what does not exist.
    """
    if wrong := _other_runs(user, config) | _other_data(user, config):
        raise ConfigError(wrong)


def _other_runs(user: Person, config: AnyConfig) -> dict[str, str]:
    references = runs_named(config, _permitted().home)
    wanted = {run for run, _ in references.values()}
    runs = Run.objects.filter(pk__in=wanted, project__in=projects_visible(user))
    seen = set(runs.values_list("pk", flat=True)) if wanted else set()
    return {path: refusal(allowed) for path, (run, allowed) in references.items() if run not in seen}


def _other_data(user: Person, config: AnyConfig) -> dict[str, str]:
    files = list(named(config, "file_fields"))
    seen = set(projects_visible(user).values_list("slug", flat=True)) if files else set()
    return {
        field: refusal(_DATA)
        for field, path in files
        if data_project(path) not in seen and not _is_used(user, field, path)
    }


def _is_used(user: Person, field: str, path: str) -> bool:
    """Whether a run that the user sees names this file outside of projects in this field: it is resumed, forked and repeated.

    Runs from before data had a project name files of the data folder, whose owner sees the project `default` alone.
    """
    if project_of(path) is not None:
        return False
    try:
        check_values(path)
    except InvalidJson:  # the database stores no such text
        return False
    tree: Any = path
    for part in reversed(field.split(".")):
        tree = {part: tree}
    runs = Run.objects.filter(project__in=projects_visible(user), source=RunSource.TROUPE)
    return runs.filter(config__contains=tree).exists()


def data_project(path: str) -> str:
    """Return the slug of the project that a file or folder below TROUPE_HOME/data belongs to."""
    slug = project_of(path)
    return DEFAULT_PROJECT if slug is None else slug


def check_storable(tree: Any, path: str = "") -> None:
    """Raises ConfigError for config values that the database cannot store: NaN, infinities, NUL characters."""
    if isinstance(tree, dict):
        for key, value in tree.items():
            check_storable(key, path)
            check_storable(value, f"{path}.{key}" if path else str(key))
    elif isinstance(tree, list):
        for index, value in enumerate(tree):
            check_storable(value, f"{path}.{index}")
    elif isinstance(tree, float) and not math.isfinite(tree):
        raise ConfigError({path: f"{tree} is not a finite number; give a finite one"})
    elif isinstance(tree, str) and "\0" in tree:
        raise ConfigError({path.replace("\0", "\ufffd"): "text cannot contain NUL characters"})


def _check_links(config: AnyConfig, permitted: Permitted) -> None:
    """Raises ConfigError for a path that leads into the data folder through a symbolic link."""
    home, wrong = os.path.realpath(permitted.home), {}
    for kind, allowed in PLACES.items():
        for field, value in named(config, kind):
            inside = os.path.realpath(value).startswith(f"{home}/")
            if value.startswith("/") and inside and not value.startswith(f"{permitted.home}/"):
                wrong[field] = refusal(allowed)
    if wrong:
        raise ConfigError(wrong)


def _permitted() -> Permitted:
    return Permitted(
        packages=settings.TROUPE_IMPORT_PACKAGES,
        home=str(settings.TROUPE_HOME),
        model_folders=settings.TROUPE_MODEL_FOLDERS,
        weights_folders=settings.TROUPE_WEIGHTS_FOLDERS,
        key_addresses=settings.TROUPE_KEY_ADDRESSES,
        networks=settings.TROUPE_RUN_NETWORKS,
    )


ASIDE = ("seed", "name", "description", "tags")
"""Fields below `run` that do not distinguish experiments."""


def family_of(config: Mapping[str, Any]) -> str:
    """Return 16 hexadecimal digits, equal for configs that differ only in ASIDE."""
    run_section = config.get("run")
    run = (
        {key: value for key, value in run_section.items() if key not in ASIDE}
        if isinstance(run_section, Mapping)
        else run_section
    )
    text = json.dumps({**config, "run": run}, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


NAMES = ("run.name", "run.tags")
"""Fields that are edited on the run itself after its launch."""
LABELS = (*NAMES, "run.description")
"""Fields that describe a run: they are no settings of its training, and do not count as changes."""


@dataclass(frozen=True)
class Change:
    """One field that differs from the preset."""

    path: str
    preset: Any
    value: Any


def flatten(tree: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return dotted path -> value of every field that is not a section."""
    flat: dict[str, Any] = {}
    for name, value in tree.items():
        path = f"{prefix}{name}"
        flat |= flatten(value, f"{path}.") if isinstance(value, Mapping) else {path: value}
    return flat


def config_named(run: Run) -> dict[str, Any]:
    """Return a run's config with the run's present name and tags."""
    return {**run.config, "run": {**run.config["run"], "name": run.name, "tags": run.tags}}


def config_again(run: Run) -> dict[str, Any]:
    """Return the config of a new run that repeats this one: as `config_named`, without the tags that Troupe itself sets."""
    config = config_named(run)
    tags = [tag for tag in run.tags if tag not in SYSTEM_TAGS]
    return {**config, "run": {**config["run"], "tags": tags}}


def preset_tree(preset: str) -> dict[str, Any]:
    """Return a preset with all its defaults, as JSON. Raises ConfigError."""
    return load_config(preset).model_dump(mode="json")


def changes(preset: str, config: Mapping[str, Any]) -> list[Change]:
    """Return the fields in which a resolved config differs from a preset; none if the preset does not exist."""
    try:
        before = flatten(preset_tree(preset))
    except ConfigError:
        return []
    return [
        Change(path, before.get(path), value)
        for path, value in flatten(config).items()
        if before.get(path) != value
    ]


def differing(flat: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the paths that are missing or different in some of the flat configs, in their order."""
    paths = list(dict.fromkeys(path for config in flat for path in config))
    missing = object()
    return [
        path
        for path in paths
        if any(config.get(path, missing) != flat[0].get(path, missing) for config in flat)
    ]


def settings_count(overrides: Iterable[str]) -> int:
    """Return how many of these dotted paths are settings."""
    return sum(path not in LABELS for path in overrides)


def departures(base: Mapping[str, Any], config: AnyConfig) -> dict[str, Any]:
    """Return the dotted overrides that turn a preset's resolved tree into `config`. A table with other names than in the preset (a
    missing role) is returned whole; a part of another type, as its type and the differences from that type's defaults.
    """
    return _departures(base, config.model_dump(mode="json"), set_fields(config))


def _departures(base: Mapping[str, Any], tree: Mapping[str, Any], brief: Any) -> dict[str, Any]:
    departures: dict[str, Any] = {}
    for name, value in tree.items():
        before = base.get(name)
        setting = brief.get(name, value) if isinstance(brief, Mapping) else value
        if not (isinstance(value, Mapping) and isinstance(before, Mapping)):
            departures |= {} if value == before else {name: setting}
        elif before.get("type") != value.get("type"):
            departures |= flatten(setting, f"{name}.")
        elif set(before) <= set(value):
            below = _departures(before, value, setting)
            departures |= {f"{name}.{path}": departure for path, departure in below.items()}
        else:
            departures[name] = setting
    return departures


def groupings(configs: Iterable[Mapping[str, Any]], chosen: str = "") -> list[tuple[str, str]]:
    """Return the ways to group runs: family, run, every config field with several values, and the chosen field."""
    values: dict[str, set[str]] = {}
    for config in map(flatten, configs):
        for path, value in config.items():
            values.setdefault(path, set()).add(str(value))
    fields = [path for path, met in values.items() if len(met) > 1]
    if chosen and chosen not in ("family", "run", *fields):
        fields.append(chosen)
    return [("family", "everything except the seed"), ("run", "each run"), *((path, path) for path in fields)]
