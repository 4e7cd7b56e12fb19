"""Every address of the URL conf, with the arguments that a world (world.py) has for it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.urls import URLPattern, URLResolver, get_resolver

OBJECTS = (
    ("account/tokens/<int:pk>", "pk", "token"),
    ("tokens/<int:token>", "token", "token"),
    ("experiments/templates/<int:pk>", "pk", "template"),
    ("templates/<int:pk>", "pk", "template"),
    ("sweeps/<int:pk>", "pk", "sweep"),
    ("views/<int:pk>", "pk", "view"),
    ("queries/<int:pk>", "pk", "query"),
    ("checkpoints/<int:pk>", "pk", "checkpoint"),
    ("runs/<str:run_id>/notes/<int:pk>", "pk", "run_note"),
    ("episodes/<int:pk>", "pk", "episode"),
    ("media/<int:pk>", "pk", "media"),
    ("channels/<int:pk>", "pk", "channel"),
    ("health/<int:pk>", "pk", "finding"),
    ("findings/<int:pk>", "pk", "finding"),
    ("jobs/<str:pk>", "pk", "job"),
    ("reports/<int:pk>", "pk", "report"),
    ("shares/<int:pk>", "pk", "share"),
    ("webhooks/<int:pk>", "pk", "webhook"),
    ("diff/<int:other>", "other", "other_episode"),
    ("artifacts/<int:pk>", "pk", "artifact"),
    ("artifacts/<int:pk>", "version", "artifact_version"),
    ("artifacts/<int:pk>", "path", "artifact_path"),
    ("", "run_id", "run"),
    ("", "slug", "slug"),
    ("", "user_id", "user"),
    ("", "username", "username"),
    ("", "note", "episode_note"),
    ("", "delivery", "delivery"),
    ("", "secret", "secret"),
    ("", "name", "checkpoint_name"),
)
"""(part of the route, argument, name of the object in World.things); the first that fits counts."""
PLAIN = {
    "act": "stop", "kind": "talk", "chart": "eval-success", "turn": "0", "number": "1", "iteration": "1", "object_id": "1",
    "content_type_id": "1", "app_label": "runs", "url": "nothing", "sha256": "ab" * 32,
    "form": "csv", "version": "2.0", "path": "x",
}  # fmt: skip
"""Arguments that name no row."""
ACTS = {
    "runs:view-act": ("rename", "default", "no-default", "remove"),
    "runs:checkpoint-act": ("pin", "unpin", "delete"),
    "runs:act": ("stop", "pause", "resume"),
    "health:act": ("dismiss", "reopen"),
    "notifications:act": ("ping", "on", "off", "remove"),
}
"""What `act` may be at the addresses that take one."""


@dataclass(frozen=True)
class Route:
    """One pattern of the URL conf."""

    pattern: str
    """Such as runs/<str:run_id>/logs/."""
    name: str
    """With its namespaces."""
    arguments: tuple[str, ...]
    view: Any

    @property
    def api(self) -> bool:
        """Whether programs call it."""
        return self.pattern.startswith("api/v1/")

    @property
    def methods(self) -> tuple[str, ...]:
        """What an API view answers; pages do not tell, so both."""
        view_class = getattr(self.view, "view_class", getattr(self.view, "cls", None))
        if not self.api or view_class is None:
            return ("GET", "POST")
        return tuple(
            method.upper()
            for method in ("get", "post", "put", "patch", "delete")
            if hasattr(view_class, method)
        )

    def object_names(self) -> dict[str, str]:
        """Argument -> name in World.things, of those that name a row of a project."""
        found = {}
        for argument in self.arguments:
            for part, name, thing in OBJECTS:
                if argument == name and part in self.pattern:
                    found[argument] = thing
                    break
        return found

    def path(self, things: Mapping[str, object], **instead: object) -> str:
        """The address for these things; `instead` replaces arguments. Fails for an argument that nobody knows."""
        known = {argument: things[name] for argument, name in self.object_names().items()}
        values = PLAIN | known | instead
        missing = set(self.arguments) - set(values)
        assert not missing, f"{self.pattern}: add {missing} to OBJECTS or PLAIN in {__file__}"
        path = self.pattern
        for argument in self.arguments:
            for converter in ("str:", "int:", "slug:", "path:", ""):
                path = path.replace(f"<{converter}{argument}>", str(values[argument]))
        return f"/{path}"

    def paths(self, things: Mapping[str, object]) -> list[str]:
        """The addresses for these things, one for each value of `act`."""
        if "act" not in self.arguments:
            return [self.path(things)]
        return [self.path(things, act=act) for act in ACTS[self.name]]


def routes(admin: bool = False) -> list[Route]:
    """All of them, by pattern; those of the admin alone, or all others."""
    found = list(_flat(get_resolver().url_patterns, "", ""))
    return [route for route in found if route.pattern.startswith("admin/") == admin]


def _flat(patterns: Sequence[URLPattern | URLResolver], prefix: str, names: str) -> Iterator[Route]:
    for each in patterns:
        route = prefix + str(each.pattern)
        if isinstance(each, URLPattern):
            arguments = tuple(each.pattern.converters)
            yield Route(route, f"{names}{each.name or ''}", arguments, each.callback)
        else:
            inner = f"{names}{each.namespace}:" if each.namespace else names
            yield from _flat(each.url_patterns, route, inner)
