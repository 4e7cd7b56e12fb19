"""Sweeps and templates: launching and stopping the runs of a sweep; saving and deleting templates."""

from collections.abc import Iterable, Mapping
from typing import Any

from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.db.models import QuerySet
from django.http import Http404
from django.urls import reverse

from training_core.config.files import apply_overrides, read_preset
from training_core.errors import ConfigError
from troupe_client.documents import experiments as documents
from troupe_client.documents.sweeps import SweepPlan
from webapp.accounts.audit import audit_note
from webapp.accounts.models import Project, User
from webapp.accounts.permissions import Person, can_edit
from webapp.accounts.selectors import projects_visible
from webapp.experiments.models import Sweep, Template
from webapp.experiments.sweeps import point_name, point_overrides, short_names
from webapp.runs.configs import check_storable, parse_permitted
from webapp.runs.models import Run, RunState
from webapp.scheduling.services import run_create, runs_do

LONGEST_NAME = 120
LONGEST_DESCRIPTION = 4000
STOPPABLE = (RunState.QUEUED, RunState.STARTING, RunState.RUNNING)


@transaction.atomic
def sweep_create(
    user: Person,
    project: Project,
    plan: SweepPlan,
    name: str = "",
    tags: Iterable[str] = (),
    provenance: Mapping[str, Any] | None = None,
) -> Sweep:
    """Launch all runs of a plan, or none. Raises ConfigError, PermissionDenied."""
    _may(user, project)
    if plan.errors:
        raise ConfigError(plan.errors)
    name = _name(name or f"{plan.preset} over {', '.join(short_names(list(plan.axes)).values())}")
    sweep = Sweep.objects.create(
        project=project,
        owner_id=user.pk,
        name=name,
        preset=plan.preset,
        overrides=plan.overrides,
        axes=plan.axes,
        method=plan.method,
        separate_processes=plan.separate_processes,
    )
    tree, names, made = read_preset(plan.preset), short_names(list(plan.axes)), []
    origin = {"via": f"sweep {sweep.pk}"} | dict(provenance or {})
    for point in plan.points:
        title = f"{name[:60]} · {point_name(point, names)}"
        made.append(
            run_create(user, project, tree, plan.preset, point_overrides(plan, point), title, tags, origin).pk
        )
    Run.objects.filter(pk__in=made).update(sweep=sweep)
    audit_note(user, project, "sweep.create", str(sweep.pk), name=name, runs=len(made))
    return sweep


def sweep_stop(user: Person, sweep: Sweep) -> list[dict[str, Any]]:
    """Stop the runs that have not ended: [{"id", "ok", "detail"}]. Raises PermissionDenied."""
    _may(user, sweep.project)
    alive = list(sweep.runs.filter(state__in=STOPPABLE).values_list("pk", flat=True))
    done = runs_do(user, alive, "stop") if alive else []
    audit_note(user, sweep.project, "sweep.stop", str(sweep.pk), runs=len(done))
    return done


def templates_visible(user: Person) -> QuerySet[Template]:
    """Return the templates of the user's projects, by name."""
    visible = Template.objects.filter(project__in=projects_visible(user)).select_related("project", "owner")
    return visible.order_by("name", "pk")


def template_get(user: Person, pk: int) -> Template:
    """Return one template. Raises Http404, also for projects that are not visible to the user."""
    template = templates_visible(user).filter(pk=pk).first()
    if template is None:
        raise Http404(f"there is no template {pk} that is visible to you")
    return template


def template_document(template: Template) -> documents.Template:
    """Return the document of one of `templates_visible`."""
    same = ("name", "description", "preset", "overrides", "created_at")
    return documents.Template(
        id=template.pk,
        project=template.project.slug,
        owner=template.owner.username if template.owner else "",
        links={"page": f"{reverse('experiments:new')}?template={template.pk}"},
        **{name: getattr(template, name) for name in same},
    )


@transaction.atomic
def template_save(
    user: Person,
    project: Project,
    name: str,
    preset: str,
    overrides: Mapping[str, Any],
    description: str = "",
    replace: bool = False,
) -> Template:
    """Store a preset with changed fields under a name; the config must be valid.

    Raises ConfigError (also if the name exists and `replace` is false), PermissionDenied.
    """
    _may(user, project)
    name, description = _name(name), description.strip()
    if not name:
        raise ConfigError({"name": "give the template a name"})
    if len(description) > LONGEST_DESCRIPTION or "\0" in description:
        raise ConfigError({"description": f"at most {LONGEST_DESCRIPTION:,} characters, without NUL"})
    config = parse_permitted(apply_overrides(read_preset(preset), overrides))
    check_storable(config.model_dump(mode="json"))
    fields = {"preset": preset, "overrides": dict(overrides), "description": description}
    Project.objects.select_for_update().get(pk=project.pk)  # serialises concurrent saves
    existing = Template.objects.select_for_update().filter(project=project, name=name).first()
    if existing and not replace:
        raise ConfigError({"name": f"a template {name!r} already exists; choose another name, or replace it"})
    template = existing or Template(project=project, name=name, owner_id=user.pk)
    for field, value in fields.items():
        setattr(template, field, value)
    template.save()
    audit_note(user, project, "template.save", str(template.pk), name=name)
    return template


@transaction.atomic
def template_delete(user: Person, template: Template) -> None:
    """Delete a template; runs that started from it stay. Raises PermissionDenied."""
    _may(user, template.project)
    audit_note(user, template.project, "template.delete", str(template.pk), name=template.name)
    template.delete()


def _may(user: Person, project: Project) -> None:
    if not isinstance(user, User) or not can_edit(user, project):
        raise PermissionDenied(
            f"you cannot change experiments of the project {project.slug}; ask an owner for the editor level"
        )


def _name(text: str) -> str:
    name = text.strip()
    if "\0" in name:
        raise ConfigError({"name": "text cannot contain NUL characters"})
    return name[:LONGEST_NAME]
