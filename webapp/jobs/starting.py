"""The start of short jobs: their kinds, parameters, configs and checkpoints."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.http import Http404
from pydantic import Field

from training_core.config.files import apply_overrides, no_preset, parse_config, preset_names, read_preset
from training_core.errors import ConfigError
from troupe_client.documents.base import Body
from troupe_client.documents.jobs import JobBody
from webapp.accounts.audit import audit_note
from webapp.accounts.models import Project, User
from webapp.accounts.permissions import Person, can_edit
from webapp.accounts.selectors import project_chosen, projects_visible
from webapp.accounts.tokens import launches_permit
from webapp.agents.pages import AgentPages
from webapp.agents.registry import AGENT_PAGES
from webapp.api.routes import parsed
from webapp.artifacts.services import references_resolve
from webapp.checkpoints.models import Checkpoint
from webapp.checkpoints.services import require_whole
from webapp.common.task_queue import enqueue
from webapp.jobs import replays
from webapp.jobs.models import Job
from webapp.runs.configs import parse_permitted_for
from webapp.runs.models import Run
from webapp.runs.selectors import run_get

Play = Literal["eval", "eval_sampled"]
MOST_TASKS = 2**31 - 1
OF_A_CONFIG = (Job.Kind.CHECK, Job.Kind.DRY_RUN, Job.Kind.PREPARE)
"""Kinds that need a config and no run."""
OF_EPISODES = (Job.Kind.WORTH, Job.Kind.WHAT_IF)
"""Kinds that replay a stored episode."""


class DryRun(Body):
    """Training episodes with the base models; for small networks, episodes after two short iterations."""

    episodes: int = Field(1, ge=1, le=16)


class Evaluate(Body):
    """Held-out tasks `first`, `first` + 1, ...; "eval" greedily, "eval_sampled" at evaluation.temperature.

    With `swapped`, each role uses the policy of another role.
    """

    episodes: int = Field(32, ge=1, le=5000)
    kind: Play = "eval"
    first: int = Field(0, ge=0, le=MOST_TASKS)
    swapped: bool = False


class Match(Body):
    """Episodes per role assignment."""

    episodes: int = Field(32, ge=1, le=1000)
    kind: Play = "eval_sampled"


class Talk(Body):
    """Roles of the user, and the held-out task."""

    roles: list[str] = Field(min_length=1, max_length=100)
    task: int = Field(0, ge=0, le=MOST_TASKS)
    kind: Play = "eval_sampled"


class Worth(Body):
    """The messages of the stored episode `episode`, or of `episodes` new ones from the held-out task `first`."""

    episode: int | None = Field(None, ge=1, lt=2**63)
    episodes: int = Field(4, ge=1, le=64)
    first: int = Field(0, ge=0, le=MOST_TASKS)
    alternatives: int = Field(4, ge=2, le=16)
    """Answers sampled per message."""
    continuations: int = Field(2, ge=2, le=16)
    """Continuations per different answer."""
    outcome: Literal["discounted", "success", "return"] = "discounted"
    """Value of an episode: success times discount to the power of its turns, success, or what the message's role and its team earn."""
    discount: float = Field(0.8, gt=0.0, le=1.0)
    max_tokens: int = Field(200_000, ge=0)
    """No message is begun after this many sampled tokens; 0: no limit."""


class WhatIf(Body):
    """The stored episode `episode`, played on `episodes` times after `text` in place of its message `turn` (from 1)."""

    episode: int = Field(ge=1, lt=2**63)
    turn: int = Field(ge=1, le=MOST_TASKS)
    text: str = Field(max_length=20_000)
    episodes: int = Field(4, ge=1, le=16)


PARAMETERS: dict[str, type[Body]] = {
    Job.Kind.CHECK: Body,
    Job.Kind.DRY_RUN: DryRun,
    Job.Kind.EVALUATE: Evaluate,
    Job.Kind.MATCH: Match,
    Job.Kind.TALK: Talk,
    Job.Kind.PREPARE: Body,
    Job.Kind.WORTH: Worth,
    Job.Kind.WHAT_IF: WhatIf,
}
"""Kind -> its parameters; a check and a preparation have none."""


def parameters_read(kind: str, values: Mapping[str, Any], roles: Mapping[str, Any]) -> dict[str, Any]:
    """Return the validated parameters, with defaults. Raises ConfigError with a message per parameter."""
    if kind not in PARAMETERS:
        raise ConfigError({"kind": f"use one of {', '.join(PARAMETERS)}"})
    wanted = parsed(PARAMETERS[kind], dict(values)).model_dump()
    unknown = [role for role in wanted.get("roles", []) if role not in roles]
    if unknown:
        raise ConfigError({"roles": f"there is no role {unknown[0]}; the team has {', '.join(roles)}"})
    return wanted


def check_supported(pages: AgentPages, kind: str, wanted: Mapping[str, Any]) -> None:
    """Raises ConfigError, with the remedy, for jobs that are impossible with this kind of agents."""
    wrong = {"kind": pages.refused_jobs[kind]} if kind in pages.refused_jobs else {}
    wrong |= {name: text for name, text in pages.refused_parameters.items() if wanted.get(name)}
    if wrong:
        raise ConfigError(wrong)


@dataclass(frozen=True)
class Subject:
    """The config and checkpoints of a job."""

    config: Mapping[str, Any]
    """Config tree."""
    run: Run | None = None
    checkpoint: Checkpoint | None = None
    other: Checkpoint | None = None
    overrides: Mapping[str, Any] | None = None


def job_start(user: Person, body: JobBody) -> Job:
    """Start a job of any kind. Raises ConfigError, Http404, PermissionDenied, TransitionRefused."""
    if body.kind in OF_A_CONFIG:
        tree = body.config
        if tree is None:
            if body.preset not in preset_names():
                raise ConfigError({"preset": no_preset(body.preset)})
            tree = read_preset(body.preset)
        subject = Subject(tree, overrides=body.overrides)
        return job_create(user, project_chosen(user, body.project), body.kind, subject, body.parameters)
    run = run_get(user, body.run)
    if body.kind == "match":
        subject = _match(user, run, body)
    else:
        wanted = checkpoint_near(run, body) or body.checkpoint
        checkpoint = None if wanted == "base" else checkpoint_find(user, run.pk, wanted)
        subject = Subject(run.config, run, checkpoint, overrides=body.overrides)
    return job_create(user, run.project, body.kind, subject, body.parameters)


def checkpoint_near(run: Run, body: JobBody) -> str:
    """Return the checkpoint for the stored episode of a job that names no checkpoint: the one nearest to its iteration."""
    episode = body.parameters.get("episode")
    if body.kind not in OF_EPISODES or body.checkpoint or not isinstance(episode, int):
        return ""
    return replays.checkpoint_of(run, episode)


def _match(user: Person, run: Run, body: JobBody) -> Subject:
    """Return `run` and `checkpoint` against `other_run` and `other`. Raises ConfigError, Http404."""
    rival = run_get(user, body.other_run or run.pk)
    if {*run.config["team"]["roles"]} != {*rival.config["team"]["roles"]}:
        wrong = "its team has other roles; only teams with the same roles can be matched"
        raise ConfigError({"other_run": wrong})
    if parse_config(run.config).networks != parse_config(rival.config).networks:
        wrong = "its policies have different networks; only equal networks can be matched"
        raise ConfigError({"other_run": wrong})
    checkpoint, other = (
        checkpoint_find(user, run.pk, body.checkpoint),
        checkpoint_find(user, rival.pk, body.other),
    )
    return Subject(run.config, run, checkpoint, other, body.overrides)


def job_create(
    user: Person,
    project: Project,
    kind: str,
    subject: Subject,
    parameters: Mapping[str, Any] | None = None,
) -> Job:
    """Create a queued job; its submission follows on commit.

    Raises ConfigError with a message per parameter or config field, PermissionDenied (also beyond the limit of a token),
    TransitionRefused for a missing checkpoint.
    """
    if not isinstance(user, User) or not can_edit(user, project):
        raise PermissionDenied(
            f"you cannot start jobs in the project {project.slug}; ask an owner for the editor level"
        )
    tree, _ = references_resolve(user, project, apply_overrides(subject.config, subject.overrides or {}))
    config = parse_permitted_for(user, tree)
    wanted = parameters_read(kind, parameters or {}, config.team.roles)
    check_supported(AGENT_PAGES[config.agents], kind, wanted)
    if wanted.get("swapped") and len(config.used_policies) < 2:
        raise ConfigError({"swapped": "all roles share one policy; there is no other policy to swap"})
    for checkpoint in filter(None, (subject.checkpoint, subject.other)):
        require_whole(checkpoint)
    if kind in OF_EPISODES:
        wanted |= replays.parameters_checked(subject.run, config, wanted)
    if kind == Job.Kind.MATCH and not (subject.checkpoint and subject.other):
        raise ConfigError({"other": "a match needs two checkpoints"})
    with transaction.atomic():
        launches_permit(user)
        job = Job.objects.create(
            kind=kind,
            project=project,
            owner=user,
            run=subject.run,
            checkpoint=subject.checkpoint,
            other=subject.other,
            config=config.model_dump(mode="json"),
            parameters=wanted,
        )
        audit_note(user, project, "job.create", job.pk, kind=kind, run=subject.run.pk if subject.run else "")
        transaction.on_commit(partial(_soon, job.pk))
    return job


def checkpoint_find(user: Person, run_id: str, name: str) -> Checkpoint:
    """Return a checkpoint of a visible run by its path, its name or its iteration; "", "last" and "latest" are the last one,
    "best" the best. Raises Http404.
    """
    rows = (
        Checkpoint.objects.filter(run_id=run_id, run__project__in=projects_visible(user), removed=False)
        .select_related("run")
        .defer("run__facts")
    )
    if name in ("", "last", "latest"):
        row = rows.filter(damaged="").order_by("-iteration").first()
    elif name == "best":
        row = rows.filter(best=True).first()
    elif name.isascii() and name.isdigit() and len(name) < 10:
        row = rows.filter(iteration=int(name)).first()
    else:
        row = (
            None
            if "\0" in name
            else (rows.filter(path=name) | rows.filter(path=f"checkpoints/{name}")).first()
        )
    if row is None:
        raise Http404(f"the run {run_id} has no checkpoint {name or 'yet'}")
    return row


def _soon(pk: str) -> None:
    enqueue("jobs.submit")
