"""The page of the form of an experiment: its fields, team editor, preview, estimate and templates."""

from dataclasses import replace
from typing import Any
from urllib.parse import urlencode

from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.safestring import mark_safe
from django.views.decorators.http import require_http_methods, require_POST

from training_core.config.effects import questionable_settings
from training_core.config.files import to_toml
from training_core.config.profiles import PROFILES
from training_core.errors import ConfigError
from troupe_client.documents.experiments import LONGEST_PROMPT, Estimate, EstimateWorker
from webapp.accounts.models import Project
from webapp.accounts.selectors import project_editable, projects_editable
from webapp.checkpoints.models import Checkpoint
from webapp.checkpoints.services import checkpoint_get
from webapp.common.tones import SHARED, policy_tones
from webapp.experiments.commands import curl_command, fork_command, launch_command, spelled
from webapp.experiments.estimates import appraise
from webapp.experiments.fields import Field, FormSection, file_errors
from webapp.experiments.forms import (
    Draft,
    draft_edited,
    draft_for_fork,
    draft_from_post,
    draft_from_query,
    draft_from_run,
    draft_from_tree,
    draft_make,
    essentials,
    query_overrides,
    stands_apart,
)
from webapp.experiments.gallery import gallery, groups
from webapp.experiments.services import template_delete, template_get, template_save, templates_visible
from webapp.experiments.team import team_read, team_svg
from webapp.experiments.team_editing import (
    ACTS,
    RENAME,
    environment_section,
    name_follow,
    role_rename,
)
from webapp.runs.configs import check_visible, config_again
from webapp.runs.selectors import run_get
from webapp.runs.states import TransitionRefused
from webapp.scheduling.forking import run_fork
from webapp.scheduling.services import run_create
from workers.sizing.estimates import KINDS, PARTS, PROMPT_TOKENS, volume
from workers.storage.base_models import base_models

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
BAR = 100.0
"""Width of a bar in the units of its drawing."""
TABLES = {"team.roles": "role-name", "policies": "policy-name"}
"""Config tables of the team editor -> the input that displays their errors."""


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
        origin = checkpoint_get(request.user, int(request.GET["fork"]))
        again = run_get(request.user, request.GET["from"]) if "from" in request.GET else None
        return draft_for_fork(origin, request.GET.dict(), again)
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
        if act == RENAME:
            tree = role_rename(draft.tree, name, _entered(request, name))
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
            for setting in (questionable_settings(draft.config) if draft.config else ())
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
    product += " and their continuations" if draft.config.continued_answers else ""
    return f"{product}: {draft.agents.budget.format(volume(draft.config).answers)}"


@require_POST
def experiment_estimate(request: HttpRequest) -> HttpResponse:
    """Return the estimate of the form's experiment (a fragment), or a message if the form has errors."""
    draft, error = posted_draft(request)
    try:
        if draft.config is not None:
            check_visible(request.user, draft.config)  # the estimate reads its models
    except ConfigError as refused:
        error = str(refused)
    if draft.config is None or error:
        return render(request, "experiments/_estimate.html", {"found": None})
    prompt = _prompt_tokens(request.POST.get("prompt_tokens", ""))
    estimate = appraise(draft.config, prompt, draft.origin.iteration if draft.origin else 0)
    tones = policy_tones(draft.tree)
    context = {
        "found": estimate,
        "pools": [(pool, tones.get(pool.name, SHARED)) for pool in estimate.pools],
        "policies": [
            (
                policy,
                tones.get(policy.policy, SHARED),
                [_drawn(estimate, worker) for worker in policy.workers],
            )
            for policy in estimate.policies
        ],
    }
    return render(request, "experiments/_estimate.html", context)


def _prompt_tokens(text: str) -> int:
    return min(max(int(text), 1), LONGEST_PROMPT) if text.isdecimal() and len(text) < 10 else PROMPT_TOKENS


def _drawn(estimate: Estimate, worker: EstimateWorker) -> dict[str, Any]:
    """Return a worker with its parts as lengths of a bar; the longest bar has full width."""
    longest = (
        max(sum(worker.parts.values()) for policy in estimate.policies for worker in policy.workers) or 1
    )
    parts, start = [], 0.0
    for index, (name, words) in enumerate(PARTS.items()):
        taken = worker.parts.get(name, 0)
        width = BAR * taken / longest
        if taken:
            parts.append({"words": words, "bytes": taken, "x": start, "width": width, "tone": index % 7})
        start += width
    return {"does": KINDS[worker.kind], "worker": worker, "parts": parts}


@require_POST
def template_keep(request: HttpRequest) -> HttpResponse:
    """Save the form as a template; if it is rejected, show the form unchanged."""
    projects = list(projects_editable(request.user))
    draft, error = posted_draft(request)
    project = project_editable(request.user, request.POST.get("project", ""))
    if error or project is None:
        return form_page(
            request, draft, projects, error or "Select a project in which you can save templates."
        )
    try:
        template = template_save(
            request.user,
            project,
            request.POST.get("template_name", ""),
            draft.preset,
            draft_from_tree(draft.preset, draft.tree).overrides,
            request.POST.get("template_description", "").replace("\r\n", "\n"),
            replace="template_replace" in request.POST,
        )
    except ConfigError as refused:
        return form_page(request, draft, projects, f"The template is not saved: {refused}")
    messages.success(request, f"Saved as the template {template.name}.")
    return redirect(f"{reverse('experiments:new')}?template={template.pk}")


@require_POST
def template_forget(request: HttpRequest, pk: int) -> HttpResponse:
    """Delete it."""
    template = template_get(request.user, pk)
    template_delete(request.user, template)
    messages.success(request, f"The template {template.name} is deleted.")
    return redirect(reverse("experiments:new"))
