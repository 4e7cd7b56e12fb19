"""Configuration of the Django admin per model: columns, search, filters, editable fields.

The pages, the API and the commands create and change rows, with checks and audit entries. In the admin, administrators
read rows and change only the fields in `editable`. Secrets and packed bytes are not shown.
"""

from dataclasses import dataclass

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
        ("prefix", "name", "user", "scopes", "last_used_at", "expires_at", "revoked_at"),
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
