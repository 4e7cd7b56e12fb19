"""The Django admin: columns, search, filters and editable fields of each model.

The pages, the API and the commands create and change rows, with checks and audit entries. In the admin, administrators
read rows and change only the fields in `editable`. Secrets and packed bytes are not shown.

webapp/site/urls.py names this module and does not import it: Django imports it when it first needs all URLs, after startup, and
not in commands that need no URLs.
"""

from dataclasses import dataclass
from typing import Any

from django.apps import apps
from django.contrib.admin import AdminSite, ModelAdmin
from django.contrib.auth.views import redirect_to_login
from django.contrib.postgres.search import SearchVectorField
from django.core.exceptions import PermissionDenied
from django.db import models
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse

from webapp.accounts.audit import audit_note

PACKED = (models.BinaryField, SearchVectorField)
SECRETS = frozenset({"password", "digest", "sealed_address", "sealed_secret"})
"""Fields that are hidden for every model."""


@dataclass(frozen=True)
class Shown:
    """Names of fields; `search` may follow relations."""

    columns: tuple[str, ...]
    search: tuple[str, ...] = ()
    filters: tuple[str, ...] = ()
    editable: tuple[str, ...] = ()
    addable: bool = False


RUN = ("run__id", "run__name")
SHOWN: dict[str, Shown] = {
    "accounts.User": Shown(
        ("username", "email", "is_active", "is_superuser", "last_login", "date_joined"),
        ("username", "email"),
        ("is_active", "is_superuser"),
        editable=("email", "is_active", "is_superuser"),
    ),
    "accounts.Project": Shown(("slug", "name", "created_at"), ("slug", "name")),
    "accounts.Membership": Shown(
        ("project", "user", "level"), ("project__slug", "user__username"), ("level",)
    ),
    "accounts.ApiToken": Shown(
        ("prefix", "name", "user", "scopes", "runs_per_day", "last_used_at", "expires_at", "revoked_at"),
        ("prefix", "name", "user__username"),
        ("revoked_at",),
    ),
    "accounts.LoginLink": Shown(("user", "created_at", "expires_at", "used_at"), ("user__username",)),
    "accounts.AuditEntry": Shown(
        ("created_at", "project", "user", "act", "target"),
        ("act", "target", "user__username"),
        ("project", "act"),
    ),
    "shares.ShareLink": Shown(
        ("kind", "target", "title", "project", "created_by", "expires_at", "revoked_at", "opened"),
        ("target", "title"),
        ("kind", "project"),
    ),
    "quotas.Quota": Shown(
        ("project", "runs", "cpus", "gpus", "points", "gigabytes", "locked", "measured_at"),
        ("project__slug", "project__name"),
        ("locked",),
        editable=("runs", "cpus", "gpus", "points", "gigabytes", "locked"),
        addable=True,
    ),
    "notifications.Destination": Shown(
        ("name", "kind", "label", "project", "enabled", "created_at"),
        ("name", "label"),
        ("enabled", "kind", "project"),
    ),
    "notifications.Delivery": Shown(
        ("created_at", "event", "destination", "state", "left", "next_at"),
        ("event", "key"),
        ("state", "event"),
    ),
    "experiments.Template": Shown(("name", "project", "preset", "created_at"), ("name",), ("project",)),
    "experiments.Sweep": Shown(
        ("name", "project", "preset", "method", "created_at"), ("name",), ("project",)
    ),
    "runs.Run": Shown(
        ("id", "name", "project", "owner", "state", "iteration", "iterations", "created_at"),
        ("id", "name", "preset"),
        ("state", "source", "archived", "project"),
    ),
    "runs.Attempt": Shown(
        ("run", "number", "state", "ended_as", "heartbeat_at"), (*RUN, "submission_id"), ("state",)
    ),
    "runs.RunNote": Shown(("run", "author", "step", "created_at"), (*RUN, "text")),
    "runs.SavedView": Shown(("name",), ("name",)),
    "transcripts.SavedQuery": Shown(("name", "owner", "project"), ("name", "query")),
    "runs.LogLine": Shown(("time", "run", "level", "source", "message"), RUN, ("level",)),
    "runs.Phase": Shown(("run", "worker", "phase", "policy", "iteration"), RUN, ("phase",)),
    "metrics.Series": Shown(("run", "key", "count", "last_step", "last_value", "chunk_count"), (*RUN, "key")),
    "metrics.Block": Shown(("run", "group", "attempt", "count", "cursor"), ("run__id",)),
    "metrics.Chunk": Shown(("series", "attempt", "count", "cursor"), ("series__key", "series__run__id")),
    "transcripts.Episode": Shown(
        ("name", "run", "kind", "iteration", "outcome", "success", "episode_return"),
        (*RUN, "name", "task"),
        ("kind", "success", "failed", "truncated"),
    ),
    "transcripts.EpisodeBody": Shown(("episode", "size"), ("episode__run__id", "episode__name")),
    "transcripts.EpisodeAnnotation": Shown(("run", "episode_name", "attempt"), (*RUN, "episode_name")),
    "transcripts.EpisodeNote": Shown(
        ("episode", "author", "turn", "label", "created_at"), ("label", "text", "author__username")
    ),
    "checkpoints.Checkpoint": Shown(
        ("run", "iteration", "path", "size", "best", "pinned", "removed", "time"),
        (*RUN, "path"),
        ("best", "pinned", "removed"),
    ),
    "jobs.Job": Shown(
        ("id", "kind", "project", "owner", "state", "created_at"), ("id",), ("kind", "state", "project")
    ),
    "health.Finding": Shown(
        ("run", "rule", "severity", "title", "state", "first_step", "last_step"),
        (*RUN, "title"),
        ("rule", "severity", "state"),
    ),
    "health.Checked": Shown(("run", "cursor"), RUN),
    "timeline.Batch": Shown(("run", "iteration", "attempt"), RUN),
    "ingest.Producer": Shown(
        ("run", "producer", "attempt", "acknowledged", "updated_at"), (*RUN, "producer")
    ),
}
"""Admin options by model label; a model without an entry has a plain list."""


class TroupeAdmin(AdminSite):
    """The admin site for users with `is_superuser`, who log in through the normal login page."""

    site_header = site_title = "Troupe: administration"
    index_title = "Stored objects"
    enable_nav_sidebar = False

    def has_permission(self, request: HttpRequest) -> bool:
        """Whether the user is a superuser; project levels do not matter."""
        return bool(request.user.is_active and getattr(request.user, "is_superuser", False))

    def login(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """Redirect to the normal login page. Raises PermissionDenied for a logged-in user: another login would lead back here."""
        if request.user.is_authenticated:
            raise PermissionDenied("only superusers see the administration")
        return redirect_to_login(request.get_full_path())


class ReadMostly(ModelAdmin):  # type: ignore[type-arg]
    """A mostly read-only admin page."""

    shown: Shown
    list_per_page = 50
    show_full_result_count = False
    actions = None

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """Return rows newest first, without packed bytes."""
        packed = [field.name for field in self.model._meta.concrete_fields if isinstance(field, PACKED)]
        return super().get_queryset(request).order_by("-pk").defer(*packed)

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> Any:
        """Ignore `_to_field`: Django treats an empty value in the query as a field name, and fails."""
        return super().get_object(request, object_id, from_field or None)

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        """Return all fields except secrets and packed bytes; for a new row, the fields that can be set."""
        if obj is None and self.shown.addable:
            return ["project", *self.shown.editable]
        return [
            field.name
            for field in self.model._meta.concrete_fields
            if field.name not in SECRETS and not isinstance(field, PACKED)
        ]

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> list[str]:
        """Return the fields that are not editable."""
        if obj is None:
            return []
        return [name for name in self.get_fields(request, obj) if name not in self.shown.editable]

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Rarely."""
        return self.shown.addable

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Whether the model has editable fields."""
        return bool(self.shown.editable)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Always False: only the pages delete rows with everything that depends on them."""
        return False

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        """Save the change and write an audit entry."""
        super().save_model(request, obj, form, change)
        values = {name: str(form.cleaned_data[name]) for name in form.changed_data}
        project = getattr(obj, "project", None)
        audit_note(request.user, project, "admin.change", f"{obj._meta.label} {obj.pk}", changed=values)


def build() -> TroupeAdmin:
    """Return the site with all models of the project."""
    made = TroupeAdmin()
    for model in apps.get_models():
        if not model.__module__.startswith("webapp."):
            continue
        label = model._meta.label
        shown = SHOWN.get(label, Shown(("__str__",)))
        facts = {
            "shown": shown,
            "list_display": shown.columns,
            "search_fields": shown.search,
            "list_filter": shown.filters,
            "list_select_related": True,
        }
        made.register(model, type(f"{label.replace('.', '')}Admin", (ReadMostly,), facts))
    return made


site = build()
urlpatterns = site.get_urls()
