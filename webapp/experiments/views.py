"""The new experiment page."""

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_POST

from training_core.errors import ConfigError
from webapp.accounts.models import Project
from webapp.accounts.selectors import project_editable, projects_editable
from webapp.checkpoints.models import Checkpoint
from webapp.checkpoints.selectors import checkpoint_get
from webapp.experiments.forms import (
    Draft,
    draft_edited,
    draft_for_fork,
    draft_from_post,
    draft_from_query,
    draft_from_run,
    draft_from_tree,
    draft_make,
    query_overrides,
)
from webapp.experiments.gallery import gallery, groups
from webapp.experiments.selectors import draft_query, form_context, preview_context
from webapp.experiments.team_editing import ACTS, RENAMING, name_follow
from webapp.experiments.template_selectors import template_get, templates_visible
from webapp.runs.configs import config_again
from webapp.runs.selectors import run_get
from webapp.runs.states import TransitionRefused
from webapp.scheduling.forking import run_fork
from webapp.scheduling.services import run_create
from workers.sizing.estimates import PROMPT_TOKENS

KEPT = ("template_name", "template_description", "template_replace")
"""Parameters of a request to save a template."""
FORM = {"via": "form"}
"""Provenance of runs that are launched from the page."""
FIND = "find"
"""Parameter of the preset search."""
CHECK = "check"
"""Parameter of the form's last check: the id of its job."""
LONGEST_ADDRESS = 4000
"""Maximum length of a URL that all browsers and servers accept."""


@require_http_methods(["GET", "POST"])
def experiment_new(request: HttpRequest) -> HttpResponse:
    """Show the form; a POST launches the run."""
    projects = list(projects_editable(request.user))
    if request.method == "GET":
        try:
            return form_page(request, _draft(request), projects)
        except ConfigError as error:
            return form_page(request, draft_from_query({}), projects, str(error))
    draft, errors = posted_draft(request)
    project = project_editable(request.user, request.POST.get("project", ""))
    if draft.config is None or project is None or errors:
        return form_page(
            request,
            draft,
            projects,
            errors or ("" if project else "Select a project in which you can launch runs."),
        )
    return _launch(request, draft, project, projects)


def _draft(request: HttpRequest) -> Draft:
    if request.GET.get("fork", "").isdecimal():
        return draft_for_fork(checkpoint_get(request.user, int(request.GET["fork"])), request.GET.dict())
    if request.GET.get("template", "").isdecimal():
        template = template_get(request.user, int(request.GET["template"]))
        return draft_make(template.preset, template.overrides | query_overrides(request.GET.dict()))
    if "from" in request.GET:
        run = run_get(request.user, request.GET["from"])
        return draft_edited(draft_from_run(run.preset, config_again(run)), request.GET.dict())
    return draft_from_query(request.GET.dict())


def posted_draft(request: HttpRequest, afresh: str = "") -> tuple[Draft, str]:
    """Return the draft, and the error of the form as a whole. Of the part `afresh` only the type is read."""
    own = f"{afresh}." if afresh else "\0"
    post = {
        name: text
        for name, text in request.POST.dict().items()
        if name == f"{own}type" or not name.startswith(own)
    }
    try:
        return draft_from_post(post, _fork_origin(request)), ""
    except ConfigError as error:
        return draft_from_query({}), str(error)


def _launch(request: HttpRequest, draft: Draft, project: Project, projects: list[Project]) -> HttpResponse:
    assert draft.config is not None
    name, tags = draft.config.run.name, list(draft.config.run.tags)
    try:
        if draft.origin:
            run = run_fork(request.user, draft.origin, tags=tags, tree=draft.tree, provenance=FORM)
        else:
            run = run_create(
                request.user, project, draft.tree, draft.preset, draft.overrides, name, tags, FORM
            )
    except (ConfigError, TransitionRefused) as error:
        return form_page(request, draft, projects, str(error))
    return redirect(reverse("runs:detail", args=[run.pk]))


def _fork_origin(request: HttpRequest) -> Checkpoint | None:
    """Return the checkpoint from which the run starts. Raises Http404."""
    number = (request.GET if request.method == "GET" else request.POST).get("fork", "")
    return checkpoint_get(request.user, int(number)) if number.isdecimal() else None


def form_page(request: HttpRequest, draft: Draft, projects: list[Project], error: str = "") -> HttpResponse:
    """Return the page of the form; 400 if there are errors."""
    context: dict[str, Any] = form_context(draft) | preview_context(draft, _runs_address(request))
    find = (request.GET if request.method == "GET" else request.POST).get(FIND, "")
    shown = groups(gallery(request.user), find, draft.preset)
    context |= {
        "place": "new",
        "preset_groups": shown,
        "find": find,
        "presets_found": sum(group.found for group in shown),
        "projects": projects,
        "templates": templates_visible(request.user),
        "template": request.GET.get("template", ""),
        "last_check": _last_check(request),
        "kept": {name: request.POST.get(name, "") for name in KEPT},
        "chosen": request.POST.get("project", request.GET.get("project", "")),
        "form_error": error,
        "prompt_tokens": request.POST.get("prompt_tokens", PROMPT_TOKENS),
        "origin": draft.origin,
    }
    refused = bool(error) or (request.method == "POST" and draft.config is None)
    return render(request, "experiments/new.html", context, status=400 if refused else 200)


def preview_response(request: HttpRequest, draft: Draft, error: str, **more: Any) -> HttpResponse:
    """Return the errors of a form, and the equivalent commands (a fragment for htmx)."""
    context = preview_context(draft, _runs_address(request)) | {"form_error": error} | more
    answer = render(request, "experiments/_checked.html", context)
    check = more.get("check")
    return _with_address(answer, request, draft, check.job.pk if check else "")


@require_POST
def experiment_edit(request: HttpRequest) -> HttpResponse:
    """Apply an operation of the team editor, or a new type of a part; returns the new fields (a fragment for htmx)."""
    act, _, name = request.POST.get("act", "").partition(":")
    draft, error = posted_draft(request, _reshaped(request) if act == "reshape" else "")
    refused: dict[str, str] = {}
    try:
        if act in RENAMING:
            tree = RENAMING[act](draft.tree, name, _entered(request, name))
        else:
            tree = ACTS[act](draft.tree, name or _new_name(request, act))
        draft = draft_from_tree(draft.preset, name_follow(tree, draft.base), draft.origin)
    except KeyError:
        error = error or f"unknown act {act!r}"
    except ConfigError as mistake:
        refused = mistake.fields
    context = form_context(draft) | preview_context(draft, _runs_address(request))
    context |= {"form_error": error, "refused": refused, "renamed": _entered(request, name)}
    context["last_check"] = _last_check(request)
    answer = render(request, "experiments/_edited.html", context)
    answer["HX-Trigger-After-Settle"] = "edited"
    return _with_address(answer, request, draft, _last_check(request))


def _last_check(request: HttpRequest) -> str:
    """Return the id of the form's last check, from its address or from its hidden input; the preview reads the job."""
    return (request.GET if request.method == "GET" else request.POST).get(CHECK, "")


def _reshaped(request: HttpRequest) -> str:
    """Return the part whose type was changed: its posted fields belong to the old type."""
    return (request.headers.get("HX-Trigger-Name") or "").removesuffix(".type")


def _entered(request: HttpRequest, name: str) -> str:
    """Return the new name entered for a role."""
    return request.POST.get(f"rename_{name}", "").strip()


def _new_name(request: HttpRequest, act: str) -> str:
    """Return the name entered next to the button of an add operation."""
    return request.POST.get(f"{act.partition('-')[0]}_name", "").strip()


def _runs_address(request: HttpRequest) -> str:
    return request.build_absolute_uri("/api/v1/runs/")


def _with_address(answer: HttpResponse, request: HttpRequest, draft: Draft, check: str) -> HttpResponse:
    """Put the form's draft and the id of its last check into the URL, if it is not too long."""
    more = {name: text for name, text in ((FIND, request.POST.get(FIND)), (CHECK, check)) if text}
    address = f"{reverse('experiments:new')}?{draft_query(draft, **more)}"
    if len(address) <= LONGEST_ADDRESS:
        answer["HX-Replace-Url"] = address
    return answer
