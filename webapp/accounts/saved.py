"""Texts that a user saves under a name for themself or for a project, such as queries of transcripts."""

from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from django.core.exceptions import PermissionDenied
from django.db import models, transaction
from django.db.models import Q, QuerySet
from django.http import Http404

from training_core.errors import ConfigError
from webapp.accounts.audit import audit_note
from webapp.accounts.models import Project, User
from webapp.accounts.permissions import Person, can_edit
from webapp.accounts.selectors import projects_visible

LONGEST_NAME = 80
Row = TypeVar("Row", bound=models.Model)


@dataclass(frozen=True)
class SavedTexts(Generic[Row]):
    """The saved texts of one kind; their model has the columns owner, project (None: only the owner's), name and query."""

    model: type[Row]
    kind: str
    """A word for messages and the audit log."""
    kinds: str

    def visible(self, user: Person) -> QuerySet[Row]:
        """Return the texts of the user's projects, and their own, by name."""
        rows = self.model._default_manager.all()
        if not isinstance(user, User):
            return rows.none()
        mine = Q(project=None, owner=user) | Q(project__in=projects_visible(user))
        return rows.filter(mine).select_related("owner", "project")

    def get(self, user: Person, pk: int) -> Row:
        """Return one visible text. Raises Http404."""
        saved = self.visible(user).filter(pk=pk).first()
        if saved is None:
            raise Http404(f"there is no saved {self.kind} {pk} that is visible to you")
        return saved

    @transaction.atomic
    def save(
        self, user: Person, name: str, query: Any, project: Project | None = None, *, replace: bool = False
    ) -> Row:
        """Save a text of the user or of a project. Raises ConfigError (name), PermissionDenied."""
        if not isinstance(user, User):
            raise PermissionDenied(f"log in to save {self.kinds}")
        self.may_change(user, project)
        name = name_valid(name)
        same = self.model._default_manager.filter(project=project, name=name)
        saved: Any = (same if project else same.filter(owner=user)).select_for_update().first()
        if saved and not replace:
            raise ConfigError(
                {"name": f"a {self.kind} {name!r} already exists; replace it, or choose another name"}
            )
        saved = saved or self.model(owner=user, project=project, name=name)
        saved.query = query
        saved.save()
        audit_note(user, project, f"{self.kind}.save", str(saved.pk), name=name, query=query)
        return saved  # type: ignore[no-any-return]

    @transaction.atomic
    def remove(self, user: Person, saved: Any) -> None:
        """Delete a text. Raises PermissionDenied."""
        self.may_change(user, saved.project)
        audit_note(user, saved.project, f"{self.kind}.remove", str(saved.pk), name=saved.name)
        saved.delete()

    def may_change(self, user: Person, project: Project | None) -> None:
        """Raises PermissionDenied."""
        if project is not None and not can_edit(user, project):
            raise PermissionDenied(f"you cannot change the {self.kinds} of the project {project.slug}")


def name_valid(name: str) -> str:
    """Return the name without spaces around it. Raises ConfigError."""
    name = name.strip()
    if not name or len(name) > LONGEST_NAME or "\0" in name:
        raise ConfigError({"name": f"give a name of 1 to {LONGEST_NAME} characters"})
    return name
