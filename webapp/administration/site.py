"""The Django admin. Imported through webapp/administration/mount.py alone, when it is first needed."""

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
    """For administrators: people with `is_superuser`, who log in as everybody does."""

    site_header = site_title = "Troupe: administration"
    index_title = "What is stored"
    enable_nav_sidebar = False

    def has_permission(self, request: HttpRequest) -> bool:
        """Nobody else, whatever their projects."""
        return bool(request.user.is_active and getattr(request.user, "is_superuser", False))

    def login(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """The one login page there is. Raises PermissionDenied for a user who is logged in: another login leads back here."""
        if request.user.is_authenticated:
            raise PermissionDenied("only superusers see the administration")
        return redirect_to_login(request.get_full_path())


class ReadMostly(ModelAdmin):  # type: ignore[type-arg]
    """Rows to be found and read; see webapp.administration.shown."""

    shown: Shown
    list_per_page = 50
    show_full_result_count = False
    actions = None

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """Newest first, without packed bytes."""
        packed = [each.name for each in self.model._meta.concrete_fields if isinstance(each, PACKED)]
        return super().get_queryset(request).order_by("-pk").defer(*packed)

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> Any:
        """Django takes an empty `_to_field` of the query for the name of a field, and fails."""
        return super().get_object(request, object_id, from_field or None)

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        """All but secrets and packed bytes; a new row has what may be given."""
        if obj is None and self.shown.addable:
            return ["project", *self.shown.editable]
        return [
            each.name
            for each in self.model._meta.concrete_fields
            if each.name not in SECRETS and not isinstance(each, PACKED)
        ]

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> list[str]:
        """What is not editable."""
        if obj is None:
            return []
        return [name for name in self.get_fields(request, obj) if name not in self.shown.editable]

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Rarely."""
        return self.shown.addable

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Where a field may be changed."""
        return bool(self.shown.editable)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Never here: the pages know what hangs on a row."""
        return False

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        """Noted like every other act."""
        super().save_model(request, obj, form, change)
        values = {name: str(form.cleaned_data[name]) for name in form.changed_data}
        project = getattr(obj, "project", None)
        audit_note(request.user, project, "admin.change", f"{obj._meta.label} {obj.pk}", changed=values)


def build() -> TroupeAdmin:
    """The site with every model of ours."""
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
