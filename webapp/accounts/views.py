"""Login, login links, tokens, password; projects, their members, tokens and audit log."""

from typing import Any, cast

from django import forms
from django.contrib import messages
from django.contrib.auth import login, update_session_auth_hash
from django.contrib.auth.decorators import login_not_required
from django.contrib.auth.forms import AuthenticationForm, PasswordChangeForm, SetPasswordForm
from django.contrib.auth.views import LoginView
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from training_core.errors import ConfigError
from troupe_client.documents.projects import TokenBody
from webapp.accounts.audit import FIELDS, audit_acts, audit_note, audit_people, audit_read
from webapp.accounts.granting import token_grant
from webapp.accounts.models import AuditEntry, Membership, Project, User
from webapp.accounts.permissions import is_owner
from webapp.accounts.selectors import (
    members_list,
    memberships_of,
    project_get,
    project_tokens,
    projects_visible,
    tokens_list,
)
from webapp.accounts.services import member_remove, member_set, project_create
from webapp.accounts.throttling import WINDOW, failure_note, too_many_failures
from webapp.accounts.tokens import link_use, link_user, token_revoke
from webapp.common.redirects import local_address

MOST_RUNS = 10_000
LIFETIMES = {"30": "in 30 days", "365": "in a year", "": "never"}


class LoginForm(AuthenticationForm):
    """Username and password, with a limit on failed attempts."""

    error_messages = {
        "invalid_login": "The username or password is not correct.",
        "inactive": "This account is disabled.",
    }

    def clean(self) -> dict[str, Any]:
        """Raises ValidationError for wrong credentials, and after too many failed attempts."""
        username = str(self.cleaned_data.get("username") or "")
        address = str(self.request.META.get("REMOTE_ADDR", "")) if self.request else ""
        if too_many_failures(username, address):
            raise ValidationError(f"Too many failed attempts; wait {WINDOW // 60} minutes and try again.")
        try:
            return super().clean()
        except ValidationError:
            failure_note(username, address)
            raise


class TokenForm(forms.Form):
    """A new API token."""

    name = forms.CharField(max_length=80, label="Name", help_text="The purpose of the token.")
    scope = forms.ChoiceField(
        label="Scope",
        choices=[
            ("read", "read everything that I can see"),
            ("launch", "also launch, stop and change runs, notes and reports"),
            ("admin", "also delete, and manage members, quotas, webhooks, channels and share links"),
        ],
    )
    project = forms.ModelChoiceField(
        Project.objects.none(),
        label="Project",
        required=False,
        empty_label="all my projects",
        to_field_name="slug",
    )
    runs = forms.IntegerField(
        label="Runs in 24 hours",
        required=False,
        min_value=0,
        max_value=MOST_RUNS,
        help_text="Maximum number of runs and short jobs that it starts; empty: no limit.",
    )
    days = forms.ChoiceField(label="Expires", required=False, choices=list(LIFETIMES.items()), initial="365")

    def __init__(self, user: User, *args: Any) -> None:
        super().__init__(*args)
        field = cast("forms.ModelChoiceField[Project]", self.fields["project"])
        field.queryset = projects_visible(user)

    def body(self) -> TokenBody:
        """Return the token that the valid form describes."""
        values, project = self.cleaned_data, self.cleaned_data["project"]
        return TokenBody(
            name=values["name"],
            scope=values["scope"],
            project=project.slug if project else "",
            runs_per_day=values["runs"],
            days=int(values["days"] or 0),
        )


class ProjectForm(forms.Form):
    """A new project."""

    name = forms.CharField(max_length=Project._meta.get_field("name").max_length, label="Name")


class MemberForm(forms.Form):
    """A user to add to a project, with a level."""

    username = forms.CharField(max_length=150, label="Username")
    level = forms.ChoiceField(
        label="Permission", choices=Membership.Level.choices, initial=Membership.Level.VIEWER
    )


@require_GET
def audit_page(request: HttpRequest, slug: str) -> HttpResponse:
    """Show the audit log of a project; the filters are in the query string."""
    project = project_get(request.user, slug)
    filters = {name: request.GET.get(name, "").replace("\0", "").strip() for name in FIELDS}
    wrong, entries, before = "", list[AuditEntry](), None
    try:
        entries, before = audit_read(project, filters)
    except ConfigError as error:
        wrong = str(error)
    query = request.GET.copy()
    query["before"] = str(before)
    context = {
        "project": project,
        "mine": is_owner(request.user, project),
        "entries": entries,
        "older": query.urlencode() if before else "",
        "filters": filters,
        "filtered": any(filters.values()),
        "acts": audit_acts(project),
        "people": audit_people(project),
        "wrong": wrong,
        "place": "projects",
        "tab": "projects",
        "part": "audit",
    }
    return render(request, "accounts/audit.html", context, status=400 if wrong else 200)


@require_GET
def tokens_page(request: HttpRequest, slug: str) -> HttpResponse:
    """Show the API tokens with access to the project."""
    project = project_get(request.user, slug)
    context = {
        "project": project,
        "mine": is_owner(request.user, project),
        "tokens": project_tokens(request.user, project),
        "place": "projects",
        "part": "tokens",
    }
    return render(request, "accounts/project_tokens.html", context)


BACKEND = "django.contrib.auth.backends.ModelBackend"


class Login(LoginView):
    """The login page."""

    template_name = "accounts/login.html"
    authentication_form = LoginForm
    redirect_authenticated_user = True

    def form_valid(self, form: AuthenticationForm) -> HttpResponse:
        """Log in."""
        user = form.get_user()
        audit_note(user, None, "account.login", user.username, by="password")
        return super().form_valid(form)


@login_not_required
@never_cache
@require_http_methods(["GET", "POST"])
def link(request: HttpRequest, secret: str) -> HttpResponse:
    """Log in with a single-use link; if the link is invalid, a user who is logged in stays logged in.

    A browser in which another user is logged in is asked first: a link may be sent to somebody who is not to notice the change.
    """
    target = HttpResponseRedirect(local_address(request.GET.get("next", ""), reverse("runs:list")))
    meant = link_user(secret)
    if request.method == "GET" and meant and request.user.is_authenticated and request.user != meant:
        return render(request, "accounts/link_asks.html", {"meant": meant})
    user = link_use(secret)
    if user is not None:
        login(request, user, backend=BACKEND)
        audit_note(user, None, "account.login", user.username, by="link")
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
        _, secret = token_grant(user, form.body())
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
    rows = [(membership.project, membership.level) for membership in memberships_of(user)]
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
        audit_note(user, None, "account.password", user.username)
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
