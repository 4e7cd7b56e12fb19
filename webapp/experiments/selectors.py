"""Context of the new experiment page."""

from dataclasses import replace
from typing import Any
from urllib.parse import urlencode

from django.conf import settings
from django.utils.safestring import mark_safe

from training_core.config.effects import unused_settings
from training_core.config.files import to_toml
from training_core.config.profiles import PROFILES
from webapp.experiments.commands import curl_command, fork_command, launch_command, spelled
from webapp.experiments.fields import Field, FormSection, file_errors
from webapp.experiments.forms import Draft, essentials, stands_apart
from webapp.experiments.team import team_read
from webapp.experiments.team_editing import environment_section
from webapp.experiments.team_picture import team_svg
from workers.sizing.estimates import volume
from workers.storage.base_models import base_models

TABLES = {"team.roles": "role-name", "policies": "policy-name"}
"""Config tables of the team editor -> the input that displays their errors."""


def form_context(draft: Draft) -> dict[str, Any]:
    """Return the essential fields, the team editor and the other sections."""
    rest = [_rest(section) for section in draft.sections]
    return {
        "draft": draft,
        "models": base_models(settings.TROUPE_HOME),
        "essentials": essentials(draft),
        "team": team_context(draft),
        "profiles": PROFILES,
        "sections": [section for section in rest if section.path != "team" and any(section.walk())],
    }


def team_context(draft: Draft) -> dict[str, Any]:
    """Return the context of the team editor: roles in turn order with their fields, policies, the picture."""
    team = team_read(draft.tree)
    fields, named = draft.fields, file_errors(draft.errors, [*draft.fields, *TABLES])
    section = environment_section(draft.tree)
    fixed = section.fixed_roles(draft.tree["environment"]) if section else ()

    def of(role: str) -> list[Field]:
        paths = [f"team.roles.{role}.{name}" for name in ("policy", "trained", "prompt")]
        return [fields[path] for path in paths if path in fields]

    return {
        "members": [
            (member, of(member.role), f"team.roles.{member.role}", member.role in fixed)
            for member in team.members
        ],
        "speakers": team.speakers,
        "order": [fields[path] for path in ("team.turn_order", "team.parallel") if path in fields],
        "more": next(_rest(section) for section in draft.sections if section.path == "team"),
        "errors": {path: named.get(path, "") for path in TABLES},
        "role_names": ",".join(draft.tree["team"]["roles"]),
        "policy_names": ",".join(draft.tree["policies"]),
        "suggested": [name for name in _roles_wanted(draft) if name not in draft.tree["team"]["roles"]],
        "picture": mark_safe(team_svg(team)),
    }


def _roles_wanted(draft: Draft) -> tuple[str, ...]:
    """Return the roles required by the environment."""
    section = environment_section(draft.tree)
    return tuple(getattr(section, "roles", ()))


def _rest(section: FormSection) -> FormSection:
    """Return a section without the fields shown at the top or in the team editor."""
    below = [_rest(subsection) for subsection in section.sections]
    return replace(
        section,
        fields=[field for field in section.fields if not stands_apart(field.path)],
        sections=[subsection for subsection in below if any(subsection.walk())],
    )


def preview_context(draft: Draft, address: str) -> dict[str, Any]:
    """Return the run as TOML, curl and `troupe launch`, and the marks that the browser sets in the form."""
    fields, filed = draft.fields, file_errors(draft.errors, [*draft.fields, *TABLES])
    anchors = {path: field.id for path, field in fields.items()} | TABLES
    return {
        "draft": draft,
        "picture": mark_safe(team_svg(team_read(draft.tree))),
        "toml": to_toml(draft.config, only_set=True) if draft.config else "",
        "launch": _launch_command(draft),
        "curl": _curl_command(draft, address),
        "sweep_query": draft_query(draft),
        "unused": [
            {"path": setting.path, "why": setting.why, "anchor": anchors.get(setting.path)}
            for setting in (unused_settings(draft.config) if draft.config else ())
        ],
        "wrong": [{"path": path, "text": text, "anchor": anchors.get(path)} for path, text in filed.items()],
        "marks": {
            "errors": {path: text for path, text in filed.items() if path in anchors},
            "changed": {path: field.preset_shown for path, field in fields.items() if field.changed},
        },
        "budget": _budget(draft),
    }


def draft_query(draft: Draft, **more: str) -> str:
    """Return the query string of a draft: its preset, or a fork's checkpoint, and the changed fields."""
    changed = {path: spelled(value) for path, value in draft.overrides.items()}
    start = {"fork": str(draft.origin.pk)} if draft.origin else {"preset": draft.preset}
    return urlencode(start | more | changed)


def _launch_command(draft: Draft) -> str:
    if draft.origin:
        return fork_command(draft.origin.run_id, draft.origin.iteration, draft.overrides)
    return launch_command(draft.preset, draft.overrides)


def _curl_command(draft: Draft, address: str) -> str:
    """Return a POST to `address`, the runs of the API, or to the fork operation of a checkpoint."""
    if not draft.origin:
        return curl_command(address, {"preset": draft.preset, "overrides": draft.overrides})
    fork = f"{address}{draft.origin.run_id}/checkpoints/{draft.origin.iteration}/fork/"
    return curl_command(fork, {"overrides": draft.overrides})


def _budget(draft: Draft) -> str:
    """Describe the cost of one iteration: the maximum number of sampled responses or environment steps."""
    if draft.config is None:
        return ""
    factors = draft.config.batch_factors
    product = " × ".join(f"{count} {name}{'s' if count != 1 else ''}" for name, count in factors.items())
    return f"{product}: {draft.agents.budget.format(volume(draft.config).answers)}"
