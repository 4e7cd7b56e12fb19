"""What the new experiment page shows."""

from dataclasses import replace
from typing import Any

from django.conf import settings

from training_core.config.files import preset_names, read_preset, to_toml
from webapp.experiments.commands import curl_command, launch_command
from webapp.experiments.fields import Section, config_sections, file_errors
from webapp.experiments.forms import Draft, essentials, is_essential
from workers.launch.estimates import max_turns, volume


def presets() -> list[dict[str, str]]:
    """Name and description of each preset."""
    return [
        {"name": name, "description": read_preset(name).get("run", {}).get("description", "")}
        for name in preset_names()
    ]


def form_context(draft: Draft) -> dict[str, Any]:
    """Essentials, the other sections, and errors that belong to no field."""
    sections = config_sections(draft.tree, draft.base, draft.errors)
    paths = [each.path for section in sections for each in section.walk()]
    filed = file_errors(draft.errors, paths)
    return {
        "draft": draft,
        "presets": presets(),
        "essentials": essentials(sections),
        "sections": [rest for section in sections if any((rest := _rest(section)).walk())],
        "loose_errors": {path: text for path, text in filed.items() if path not in paths},
    }


def _rest(section: Section) -> Section:
    """A section without the essentials, which stand at the top."""
    below = [_rest(each) for each in section.sections]
    return replace(
        section,
        fields=[each for each in section.fields if not is_essential(each.path)],
        sections=[each for each in below if any(each.walk())],
    )


def preview_context(draft: Draft, address: str) -> dict[str, Any]:
    """The same run as TOML, curl and `troupe launch`, and what the browser marks in the form."""
    sections = config_sections(draft.tree, draft.base, draft.errors)
    fields = {each.path: each for section in sections for each in section.walk()}
    filed = file_errors(draft.errors, list(fields))
    return {
        "draft": draft,
        "toml": to_toml(draft.config, only_set=True) if draft.config else "",
        "launch": launch_command(draft.preset, draft.overrides),
        "curl": curl_command(address, draft.preset, draft.overrides),
        "wrong": [{"path": path, "text": text, "field": fields.get(path)} for path, text in filed.items()],
        "marks": {
            "errors": {path: text for path, text in filed.items() if path in fields},
            "changed": {path: each.preset_shown for path, each in fields.items() if each.changed},
        },
        "budget": _budget(draft),
        "home": settings.TROUPE_HOME,
    }


def _budget(draft: Draft) -> str:
    """What one iteration costs, in answers sampled at most."""
    if draft.config is None:
        return ""
    config = draft.config
    return (
        f"{config.rollout.tasks} tasks × {config.rollout.group_size} candidates × {max_turns(config)} turns × "
        f"{len(config.team.order)} roles: at most {volume(config).answers:,} answers an iteration"
    )
