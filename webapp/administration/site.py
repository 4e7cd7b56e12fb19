"""The Django admin. Imported only through webapp/administration/mount.py, on first use."""

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
from webapp.administration.shown import SECRETS, SHOWN, Shown

PACKED = (models.BinaryField, SearchVectorField)


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
    """A mostly read-only admin page; see webapp.administration.shown."""

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
