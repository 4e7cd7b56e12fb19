"""Login, login links, tokens, projects and their members, password."""

from typing import cast

from django.contrib import messages
from django.contrib.auth import login, update_session_auth_hash
from django.contrib.auth.decorators import login_not_required
from django.contrib.auth.forms import PasswordChangeForm, SetPasswordForm
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from webapp.accounts.forms import MemberForm, ProjectForm, TokenForm
from webapp.accounts.links import link_use
from webapp.accounts.models import User
from webapp.accounts.permissions import is_owner, level_of
from webapp.accounts.selectors import members_list, project_get, projects_visible, tokens_list
from webapp.accounts.services import member_remove, member_set, project_create
from webapp.accounts.tokens import token_create, token_revoke
from webapp.common.redirects import local_address

BACKEND = "django.contrib.auth.backends.ModelBackend"


@login_not_required
@never_cache
@require_GET
def link(request: HttpRequest, secret: str) -> HttpResponse:
    """Log in with a single-use link; if the link is invalid, a user who is logged in stays logged in."""
    user = link_use(secret)
    target = HttpResponseRedirect(local_address(request.GET.get("next", ""), reverse("runs:list")))
    if user is not None:
        login(request, user, backend=BACKEND)
        return target
    if request.user.is_authenticated:
        return target
    return render(request, "accounts/link_used.html", status=410)


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def tokens(request: HttpRequest) -> HttpResponse:
    """List the user's API tokens; the secret of a new token is shown only in the response to its own POST."""
    user = _person(request)
    form, secret = TokenForm(user, request.POST or None), ""
    if request.method == "POST" and form.is_valid():
        _, secret = token_create(
            user,
            form.cleaned_data["name"],
            form.scopes(),
            expires=form.expires(),
            project=form.cleaned_data["project"],
        )
        form = TokenForm(user)
    context = {
        "form": form,
        "secret": secret,
        "tokens": tokens_list(user),
        "place": "tokens",
        "tab": "tokens",
    }
    return render(request, "accounts/tokens.html", context, status=400 if form.errors else 200)


@require_POST
def token_end(request: HttpRequest, pk: int) -> HttpResponse:
    """Revoke one of the user's tokens."""
    if token_revoke(_person(request), pk):
        messages.success(request, "The token is revoked.")
    else:
        messages.error(request, "You have no such active token.")
    return redirect("accounts:tokens")


@require_http_methods(["GET", "HEAD", "POST"])
def projects(request: HttpRequest) -> HttpResponse:
    """List the user's projects; any user may create one."""
    user = _person(request)
    form = ProjectForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        try:
            project = project_create(user, form.cleaned_data["name"])
            return redirect("accounts:members", slug=project.slug)
        except ValidationError as error:
            form.add_error("name", error.messages[0])
    rows = [(project, level_of(user, project)) for project in projects_visible(user)]
    context = {"form": form, "rows": rows, "place": "projects", "tab": "projects"}
    return render(request, "accounts/projects.html", context, status=400 if form.errors else 200)


@require_http_methods(["GET", "HEAD", "POST"])
def members(request: HttpRequest, slug: str) -> HttpResponse:
    """List the members of a project; owners add members and change levels. 404 for other projects."""
    user = _person(request)
    project = project_get(user, slug)
    form = MemberForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        try:
            member_set(user, project, form.cleaned_data["username"], form.cleaned_data["level"])
            return redirect("accounts:members", slug=slug)
        except ValidationError as error:
            _add_errors(form, error)
    context = {
        "project": project,
        "members": members_list(project),
        "mine": is_owner(user, project),
        "form": form,
        "place": "projects",
        "tab": "projects",
        "part": "members",
    }
    return render(request, "accounts/members.html", context, status=400 if form.errors else 200)


@require_POST
def member_end(request: HttpRequest, slug: str, user_id: int) -> HttpResponse:
    """Remove a member from a project."""
    user = _person(request)
    try:
        member_remove(user, project_get(user, slug), user_id)
    except ValidationError as error:
        messages.error(request, error.messages[0])
    return redirect("accounts:projects" if user_id == user.pk else reverse("accounts:members", args=[slug]))


@sensitive_post_parameters()
@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def password(request: HttpRequest) -> HttpResponse:
    """Change the password, or set the first one after a login link; ends the user's other sessions."""
    user = _person(request)
    form_class = PasswordChangeForm if user.has_usable_password() else SetPasswordForm
    form = form_class(user, request.POST or None)
    if request.method == "POST" and form.is_valid():
        update_session_auth_hash(request, form.save())
        messages.success(request, "The password is set.")
        return redirect("accounts:password")
    context = {"form": form, "place": "tokens", "tab": "password"}
    return render(request, "accounts/password.html", context, status=400 if form.errors else 200)


def _person(request: HttpRequest) -> User:
    """Return the user of the request; every caller requires a login."""
    return cast(User, request.user)


def _add_errors(form: MemberForm, error: ValidationError) -> None:
    """Add the service's messages to the fields of the form."""
    fields = getattr(error, "error_dict", {})
    for field, problems in fields.items():
        form.add_error(field, [message for problem in problems for message in problem.messages])
    if not fields:
        form.add_error(None, error.messages[0])
