"""Creation of jobs from forms and API requests: one function per kind."""

from collections.abc import Mapping
from typing import Any

from django.http import Http404

from training_core.config.files import no_preset, parse_config, preset_names, read_preset
from training_core.errors import ConfigError
from webapp.accounts.permissions import Person
from webapp.accounts.selectors import project_default, project_named
from webapp.jobs.models import Job
from webapp.jobs.selectors import checkpoint_find
from webapp.jobs.services import Subject, job_create
from webapp.runs.selectors import run_get

OF_A_CONFIG = (Job.Kind.CHECK, Job.Kind.DRY_RUN, Job.Kind.PREPARE)
"""Kinds that need a config and no run."""


def config_job_start(user: Person, kind: str, wanted: Mapping[str, Any]) -> Job:
    """check, dry_run and prepare: `preset` or `config` with `overrides`, in `project` (a slug; default: the user's oldest)."""
    preset, tree = str(wanted.get("preset") or ""), wanted.get("config")
    if tree is None:
        if preset not in preset_names():
            raise ConfigError({"preset": no_preset(preset)})
        tree = read_preset(preset)
    slug = str(wanted.get("project") or "")
    project = project_named(user, slug) if slug else project_default(user)
    if project is None:
        raise Http404("you cannot launch in any project")
    subject = Subject(tree, overrides=wanted.get("overrides") or {})
    return job_create(user, project, kind, subject, wanted.get("parameters"))


def checkpoint_job_start(user: Person, kind: str, wanted: Mapping[str, Any]) -> Job:
    """evaluate and talk: `run`, `checkpoint` ("" is the last, "base" the base models), `overrides`, `parameters`."""
    run = run_get(user, str(wanted.get("run") or ""))
    name = str(wanted.get("checkpoint") or "")
    checkpoint = None if name == "base" else checkpoint_find(user, run.pk, name)
    subject = Subject(run.config, run, checkpoint, overrides=wanted.get("overrides") or {})
    return job_create(user, run.project, kind, subject, wanted.get("parameters"))


def match_start(user: Person, wanted: Mapping[str, Any]) -> Job:
    """`run` and `checkpoint` against `other_run` and `other`."""
    run = run_get(user, str(wanted.get("run") or ""))
    rival = run_get(user, str(wanted.get("other_run") or run.pk))
    if {*run.config["team"]["roles"]} != {*rival.config["team"]["roles"]}:
        raise ConfigError(
            {"other_run": "its team has other roles; only teams with the same roles can be matched"}
        )
    if parse_config(run.config).networks != parse_config(rival.config).networks:
        raise ConfigError(
            {"other_run": "its policies have different networks; only equal networks can be matched"}
        )
    subject = Subject(
        run.config,
        run,
        checkpoint_find(user, run.pk, str(wanted.get("checkpoint") or "")),
        checkpoint_find(user, rival.pk, str(wanted.get("other") or "")),
        wanted.get("overrides") or {},
    )
    return job_create(user, run.project, Job.Kind.MATCH, subject, wanted.get("parameters"))


def job_start(user: Person, kind: str, wanted: Mapping[str, Any]) -> Job:
    """Start a job of any kind. Raises ConfigError, Http404, PermissionDenied, TransitionRefused."""
    if kind in OF_A_CONFIG:
        return config_job_start(user, kind, wanted)
    if kind == Job.Kind.MATCH:
        return match_start(user, wanted)
    if kind in (Job.Kind.EVALUATE, Job.Kind.TALK):
        return checkpoint_job_start(user, kind, wanted)
    raise ConfigError({"kind": f"use one of {', '.join(Job.Kind.values)}"})
