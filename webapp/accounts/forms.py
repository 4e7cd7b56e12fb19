"""Forms of the account pages."""

from datetime import datetime, timedelta
from typing import Any, cast

from django import forms
from django.contrib.auth.forms import AuthenticationForm
from django.core.exceptions import ValidationError
from django.utils import timezone

from webapp.accounts.models import ApiToken, Membership, Project, User
from webapp.accounts.selectors import projects_visible
from webapp.accounts.throttling import WINDOW, failure_note, too_many_failures
from webapp.accounts.tokens import PERSONAL_SCOPES

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
    days = forms.ChoiceField(label="Expires", required=False, choices=list(LIFETIMES.items()), initial="365")

    def __init__(self, user: User, *args: Any) -> None:
        super().__init__(*args)
        field = cast("forms.ModelChoiceField[Project]", self.fields["project"])
        field.queryset = projects_visible(user)

    def scopes(self) -> list[str]:
        """Return the selected scope and the scopes it includes."""
        last = PERSONAL_SCOPES.index(ApiToken.Scope(self.cleaned_data["scope"]))
        return [str(scope) for scope in PERSONAL_SCOPES[: last + 1]]

    def expires(self) -> datetime | None:
        """Return the expiry time, or None for a token that does not expire."""
        days = self.cleaned_data["days"]
        return timezone.now() + timedelta(days=int(days)) if days else None


class ProjectForm(forms.Form):
    """A new project."""

    name = forms.CharField(max_length=Project._meta.get_field("name").max_length, label="Name")


class MemberForm(forms.Form):
    """A user to add to a project, with a level."""

    username = forms.CharField(max_length=150, label="Username")
    level = forms.ChoiceField(
        label="Permission", choices=Membership.Level.choices, initial=Membership.Level.VIEWER
    )
