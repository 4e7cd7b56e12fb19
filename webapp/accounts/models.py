"""Users, projects, memberships, API tokens, login links."""

from django.contrib.auth.models import AbstractUser
from django.db import models


class User(AbstractUser):
    """A user account."""

    token_project_id: int | None = None
    """The only project visible to this request if it was authenticated with a token of that project; not stored."""
    token: "ApiToken | None" = None
    """The token that authenticated this request; not stored."""
    tool: str = ""
    """The tool of an assistant that sent this request (webapp/site/assistants.py); not stored."""


class Project(models.Model):
    """A set of runs visible to the same members."""

    slug = models.SlugField(max_length=60, unique=True)
    name = models.CharField(max_length=120)
    created_at = models.DateTimeField(auto_now_add=True)
    members = models.ManyToManyField(User, through="Membership", related_name="projects")

    def __str__(self) -> str:
        return self.name


class Membership(models.Model):
    """The level of one user in one project."""

    class Level(models.TextChoices):
        """owner: everything, including members; editor: launch, stop, resume; viewer: read."""

        OWNER = "owner"
        EDITOR = "editor"
        VIEWER = "viewer"

    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="memberships")
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="memberships")
    level = models.CharField(max_length=10, choices=Level.choices, default=Level.VIEWER)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["project", "user"], name="one_membership_per_person")]


class ApiToken(models.Model):
    """A bearer token: stored hashed (SHA-256 of a 32-byte random secret), shown once."""

    class Scope(models.TextChoices):
        """read: GET; launch: also launch, stop and change runs, notes and reports; admin: also delete, and manage
        members, quotas, channels, webhooks and share links; ingest: write events of one run.
        """

        READ = "read"
        LAUNCH = "launch"
        ADMIN = "admin"
        INGEST = "ingest"

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="api_tokens")
    name = models.CharField(max_length=80)
    prefix = models.CharField(max_length=12)
    """First characters of the token, for identification."""
    digest = models.CharField(max_length=64, unique=True)
    scopes = models.JSONField(default=list)
    run = models.ForeignKey(
        "runs.Run", null=True, blank=True, on_delete=models.CASCADE, related_name="ingest_tokens"
    )
    """The only run that an ingest token can write to."""
    project = models.ForeignKey(
        Project, null=True, blank=True, on_delete=models.CASCADE, related_name="api_tokens"
    )
    """The only project accessible with the token; None: all projects of its user."""
    runs_per_day = models.PositiveIntegerField(null=True, blank=True)
    """Maximum number of launches, resumes and jobs in 24 hours; None: no limit."""
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField(null=True, blank=True)
    last_used_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)


class LoginLink(models.Model):
    """A single-use login link; only its digest is stored."""

    user = models.ForeignKey(User, on_delete=models.CASCADE)
    digest = models.CharField(max_length=64, unique=True)
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField()
    used_at = models.DateTimeField(null=True, blank=True)


class AuditEntry(models.Model):
    """One act of a user, immutable. Written by webapp.accounts.audit.audit_note."""

    project = models.ForeignKey(Project, null=True, on_delete=models.SET_NULL, related_name="audit_entries")
    user = models.ForeignKey(User, null=True, on_delete=models.SET_NULL, related_name="audit_entries")
    token = models.ForeignKey(ApiToken, null=True, on_delete=models.SET_NULL, related_name="audit_entries")
    act = models.CharField(max_length=40)
    """Noun and verb: run.stop, token.make, member.remove ..."""
    target = models.CharField(max_length=200, blank=True)
    """The object of the act: a run's id, a username ..."""
    details = models.JSONField(default=dict)
    created_at = models.DateTimeField(auto_now_add=True, db_index=True)

    class Meta:
        indexes = [models.Index(fields=["project", "-id"])]
        ordering = ["-pk"]

    @property
    def of_a_run(self) -> bool:
        """Whether the target is a run's id, which a page can link."""
        return self.act.startswith("run.") and self.target.isalnum()
