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

LIFETIMES = {"30": "30 days", "365": "a year", "": "for ever"}


class LoginForm(AuthenticationForm):
    """Username and password, a few tries at a time."""

    error_messages = {
        "invalid_login": "This name and password do not belong together.",
        "inactive": "This account is switched off.",
    }

    def clean(self) -> dict[str, Any]:
        """Raises ValidationError for a wrong pair, and for too many of them."""
        username = str(self.cleaned_data.get("username") or "")
        address = str(self.request.META.get("REMOTE_ADDR", "")) if self.request else ""
        if too_many_failures(username, address):
            raise ValidationError(f"Too many tries have failed; wait {WINDOW // 60} minutes and try again.")
        try:
            return super().clean()
        except ValidationError:
            failure_note(username, address)
            raise


class TokenForm(forms.Form):
    """A new API token."""

    name = forms.CharField(
        max_length=80, label="Name", help_text="What it is for, so that you know it later."
    )
    scope = forms.ChoiceField(
        label="May",
        choices=[
            ("read", "read everything that I can see"),
            ("launch", "also launch, stop and change runs, notes and reports"),
            ("admin", "also delete, and manage members, quotas, webhooks, channels and share links"),
        ],
    )
    project = forms.ModelChoiceField(
        Project.objects.none(),
        label="In",
        required=False,
        empty_label="all my projects",
        to_field_name="slug",
    )
    days = forms.ChoiceField(label="Works", required=False, choices=list(LIFETIMES.items()), initial="365")

    def __init__(self, user: User, *given: Any) -> None:
        super().__init__(*given)
        field = cast("forms.ModelChoiceField[Project]", self.fields["project"])
        field.queryset = projects_visible(user)

    def scopes(self) -> list[str]:
        """The chosen scope, and those that it includes."""
        last = PERSONAL_SCOPES.index(ApiToken.Scope(self.cleaned_data["scope"]))
        return [str(scope) for scope in PERSONAL_SCOPES[: last + 1]]

    def expires(self) -> datetime | None:
        """When it ends, if ever."""
        days = self.cleaned_data["days"]
        return timezone.now() + timedelta(days=int(days)) if days else None


class ProjectForm(forms.Form):
    """A new project."""

    name = forms.CharField(max_length=Project._meta.get_field("name").max_length, label="Name")


class MemberForm(forms.Form):
    """Somebody who is to belong to a project."""

    username = forms.CharField(max_length=150, label="Username")
    level = forms.ChoiceField(label="May", choices=Membership.Level.choices, initial=Membership.Level.VIEWER)
