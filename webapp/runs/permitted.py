"""Checks of configs from pages and the API: which code, files and checkpoints they may reference."""

import math
import os
from collections.abc import Mapping
from typing import Any

from django.apps import apps
from django.conf import settings

from training_core.config.files import parse_config
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
from webapp.accounts.permissions import Person


def parse_permitted(tree: Mapping[str, Any]) -> AnyConfig:
    """Parse a config that any user may run who can launch here and see the runs it references.

    Raises ConfigError with one message per field, also for code, files, models and folders that are not allowed by the
    server's owner. Before running or reading anything, call `check_runs_visible` for the referenced checkpoints.
    """
    config = parse_config(tree)
    permitted = _permitted()
    check_permitted(config, permitted)
    _check_links(config, permitted)
    return config


def parse_permitted_for(user: Person, tree: Mapping[str, Any]) -> AnyConfig:
    """Like `parse_permitted`, with checkpoints only of runs that are visible to this user. Raises ConfigError."""
    config = parse_permitted(tree)
    check_runs_visible(user, config)
    return config


def check_runs_visible(user: Person, config: AnyConfig) -> None:
    """Raises ConfigError if a config references a checkpoint of a run outside the user's projects.

    The message is the same for a run that does not exist.
    """
    named = runs_named(config, _permitted().home)
    wanted = {run for run, _ in named.values()}
    if not wanted:
        return
    runs = apps.get_model("runs", "Run").objects.filter(pk__in=wanted)
    seen = (
        set(runs.filter(project__memberships__user=user.pk).values_list("pk", flat=True))
        if user.is_active
        else set()
    )
    wrong = {path: refusal(allowed) for path, (run, allowed) in named.items() if run not in seen}
    if wrong:
        raise ConfigError(wrong)


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
    )
