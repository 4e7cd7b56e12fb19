"""Groups of commands: assembly, and suggestions for a wrong name."""

from collections.abc import Iterator
from difflib import SequenceMatcher
from typing import Any

import typer
from typer.core import TyperGroup

from troupe_client.cli.resources import REQUESTS
from troupe_client.cli.topics.registry import GROUPS, TOP

MOST_SUGGESTIONS = 3
LEAST_SIMILARITY = 0.7


class CommandGroup(TyperGroup):
    """A group that suggests commands of the whole program for a wrong name."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Raise a usage error with suggestions for a name that does not exist."""
        if not ctx.resilient_parsing and not args[0].startswith("-") and args[0] not in self.commands:
            root = ctx.find_root()
            own = ctx.command_path.removeprefix(root.command_path).split()
            names = similar(" ".join([*own, args[0]]), [*paths(root.command), *GROUPS])
            hint = " Did you mean " + " or ".join(f"'{name}'" for name in names) + "?" if names else ""
            ctx.fail(f"No such command {args[0]!r}.{hint}")
        return super().resolve_command(ctx, args)


def add_groups(app: typer.Typer) -> None:
    """Add the commands of all topics."""
    for topic in TOP:
        app.add_typer(topic)
    for name, group in GROUPS.items():
        sub = typer.Typer(help=group.about, no_args_is_help=True, cls=CommandGroup)
        for topic in group.topics:
            sub.add_typer(topic)
        for command, request in REQUESTS.get(name, {}).items():
            sub.command(command)(request.command())
        app.add_typer(sub, name=name, rich_help_panel=group.section)


def paths(command: Any, path: tuple[str, ...] = ()) -> Iterator[str]:
    """Yield the path of every command below `command`, without those of groups."""
    for name, inner in getattr(command, "commands", {}).items():
        yield from paths(inner, (*path, name))
    if not hasattr(command, "commands"):
        yield " ".join(path)


def similar(name: str, known: list[str]) -> list[str]:
    """Return the known paths that resemble `name` most, at most MOST_SUGGESTIONS of them.

    A hyphen counts as a space: sweep-show resembles "sweep show". A path with the last word `name` resembles it too.
    """
    plain = name.replace("-", " ")
    scores = {path: _similarity(plain, path.replace("-", " ")) for path in known}
    best = sorted(
        (path for path in known if scores[path] >= LEAST_SIMILARITY), key=lambda path: -scores[path]
    )
    exact = [path for path in best if scores[path] == 1.0]
    return (exact or best)[:MOST_SUGGESTIONS]


def _similarity(plain: str, path: str) -> float:
    if sorted(plain.split()) == sorted(path.split()):
        return 1.0
    if path.split()[-1] == plain:
        return 0.9
    if " ".join(path.split()[:-1]) in (plain, plain.removesuffix("s")):
        return 0.8 + 0.15 * path.endswith(" list")
    return SequenceMatcher(None, plain, path).ratio()
