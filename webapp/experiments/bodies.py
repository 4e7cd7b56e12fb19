"""Parsing of API request bodies."""

from typing import Any

from rest_framework.exceptions import PermissionDenied
from rest_framework.request import Request

from training_core.config.files import apply_overrides, read_preset
from training_core.config.kinds import AnyConfig
from training_core.errors import ConfigError
from webapp.accounts.models import Project
from webapp.accounts.permissions import Person
from webapp.accounts.selectors import project_default, project_named
from webapp.runs.configs import parse_permitted

CONFIG_KEYS = {"preset", "overrides", "config"}


def body_of(request: Request, known: set[str]) -> dict[str, Any]:
    """Return the body, an object with known keys only: a typing error must not launch something else. Raises ConfigError."""
    if not isinstance(request.data, dict):
        raise ConfigError({"": "the body must be a JSON object"})
    unknown = sorted(set(request.data) - known)
    if unknown:
        raise ConfigError(dict.fromkeys(unknown, "there is no such field"))
    return dict(request.data)


def project_of(user: Person, slug: Any) -> Project:
    """Return the project with this slug, or the caller's default. Raises Http404, PermissionDenied, ConfigError."""
    if not isinstance(slug, str):
        raise ConfigError({"project": "give a project's slug"})
    project = project_named(user, slug) if slug else project_default(user)
    if project is None:
        raise PermissionDenied("you cannot launch in any project; ask an owner for the editor level")
    return project


def config_of(body: dict[str, Any]) -> AnyConfig:
    """Return the config of a body: a preset with overrides, or a complete tree. Raises ConfigError."""
    preset, overrides, tree = body.get("preset"), body.get("overrides", {}), body.get("config")
    if (preset is None) == (tree is None):
        raise ConfigError({"preset": "give either preset (with overrides) or config"})
    if not isinstance(overrides, dict):
        raise ConfigError({"overrides": "give an object of dotted field paths"})
    if tree is not None and not isinstance(tree, dict):
        raise ConfigError({"config": "give an object"})
    return parse_permitted(apply_overrides(read_preset(str(preset)) if tree is None else tree, overrides))


def provenance_of(body: dict[str, Any]) -> dict[str, Any]:
    """Return what the launching program reported about itself. Raises ConfigError."""
    reported = body.get("provenance", {})
    if not isinstance(reported, dict):
        raise ConfigError({"provenance": "give an object"})
    return reported
