"""Runs that end, continue, are forked, or begin in a custom program, in the REST API."""

from django.db import transaction

from troupe_client.documents.launches import ClientRunBegun, ClientRunBody, ForkBody, ResumeBody, StopBody
from troupe_client.documents.runs import RunSummary
from webapp.accounts.permissions import Person
from webapp.accounts.selectors import project_chosen
from webapp.api.routes import Routes
from webapp.metrics.selectors import step_next
from webapp.runs.models import RunState
from webapp.runs.selectors import run_get, run_summary
from webapp.scheduling.client_runs import client_run_begin
from webapp.scheduling.forking import run_fork_named, run_resume_edited
from webapp.scheduling.services import run_do

routes = Routes()


def run_answer(user: Person, run_id: str) -> RunSummary:
    """Return the summary of a run after its change."""
    return RunSummary(**run_summary(run_get(user, run_id)))


@transaction.atomic
def _end(user: Person, run_id: str, act: str, now: bool) -> None:
    run_do(user, run_get(user, run_id), act)
    if now and run_get(user, run_id).state == RunState.STOPPING:
        run_do(user, run_get(user, run_id), "end_now")


@routes.post("runs/<str:run_id>/stop/", name="run-stop", forms=True)
def run_stop(user: Person, run_id: str, body: StopBody) -> RunSummary:
    """Stop a run; 409 if its state does not allow it. The body is optional."""
    _end(user, run_id, "stop", body.now)
    return run_answer(user, run_id)


@routes.post("runs/<str:run_id>/pause/", name="run-pause", forms=True)
def run_pause(user: Person, run_id: str, body: StopBody) -> RunSummary:
    """Pause a run; 409 if its state does not allow it. The body is optional."""
    _end(user, run_id, "pause", body.now)
    return run_answer(user, run_id)


@routes.post("runs/<str:run_id>/resume/", name="run-resume")
def run_resume(user: Person, run_id: str, body: ResumeBody) -> RunSummary:
    """Queue a new attempt, optionally with an edited config; 409 if the state does not allow it or `checkpoint` is damaged.

    The default checkpoint is the newest intact one.
    """
    run_resume_edited(user, run_get(user, run_id), body.overrides, body.checkpoint)
    return run_answer(user, run_id)


@routes.post("runs/<str:run_id>/checkpoints/<str:name>/fork/", name="checkpoint-fork", status=201)
def fork(user: Person, run_id: str, name: str, body: ForkBody) -> RunSummary:
    """Launch a run from a checkpoint with the parent's config and overrides. `name`: last, best or an iteration.

    The last or best one of a run without checkpoints is its start: the run is launched again, and has not this parent.
    """
    provenance = {"via": "API"} | body.provenance
    run = run_fork_named(user, run_id, name, body.overrides, body.name, body.tags, provenance)
    return run_answer(user, run.pk)


@routes.post("client-runs/", name="client-runs")
def client_run(user: Person, body: ClientRunBody) -> ClientRunBegun:
    """Create or resume the run of a custom program, which trains itself and reports to this server."""
    run, attempt = client_run_begin(user, project_chosen(user, body.project), body)
    return ClientRunBegun(run=RunSummary(**run_summary(run)), attempt=attempt.number, step=step_next(run))
