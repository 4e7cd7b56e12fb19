"""The `troupe` command: what the pages do, from a terminal.

Imports neither Django, Ray nor torch, so that it starts fast and runs where only the client is installed.
"""

import os
import sys
from typing import Annotated, Any

import typer
from rich.markup import escape

from training_core.errors import TroupeError
from troupe_client.cli.arguments import AsJson, InProject, Overrides, RunId, RunName, Source, Tags
from troupe_client.cli.groups import CommandGroup, add_groups
from troupe_client.cli.installed import require_server
from troupe_client.cli.output import (
    console,
    errors,
    print_json,
    print_launched,
    print_result,
    print_table,
    print_wide,
)
from troupe_client.cli.sections import RUNS, START
from troupe_client.cli.show import runs_table
from troupe_client.cli.topics.jobs import check_config
from troupe_client.cli.topics.views import view_find
from troupe_client.server_api import ROOT, find_server, home, run_path
from workers.provenance.collecting import launch_provenance

app = typer.Typer(
    name="troupe",
    help="A lab for multi-agent reinforcement learning: launch, watch, read, diagnose, fork.",
    cls=CommandGroup,
    no_args_is_help=True,
    pretty_exceptions_show_locals=False,
)


def main() -> None:
    """Run the console script. A TroupeError is printed without a traceback and exits with status 1; wrong usage with 2."""
    try:
        _call()
    except TroupeError as error:
        fields: dict[str, str] = getattr(error, "fields", {})
        for path, text in fields.items():
            errors.print(
                f"{path or 'error'}: {text}", style="red", markup=False, highlight=False, soft_wrap=True
            )
        if not fields:
            errors.print(f"error: {error}", style="red", markup=False, highlight=False, soft_wrap=True)
        sys.exit(1)


def _call() -> None:
    try:
        app(prog_name="troupe")
    except ModuleNotFoundError:
        require_server()
        raise


@app.command(
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True}, rich_help_panel=START
)
def up(context: typer.Context) -> None:
    """Start all servers on this machine and print a link; Ctrl-C stops them."""
    require_server()
    manage = ROOT / "manage.py"
    words = [str(manage), "up"] if manage.exists() else ["-m", "webapp.stack"]
    if not manage.exists() and not os.environ.get("TROUPE_HOME"):
        raise TroupeError(
            "set TROUPE_HOME to a folder for data: the default, var/, exists only in a checkout"
        )
    os.execv(sys.executable, [sys.executable, *words, *context.args])


@app.command(rich_help_panel=START)
def run(
    source: Source,
    overrides: Overrides = None,
    seeds: Annotated[
        str, typer.Option(help="0,1,2 or 0..4: a run with each seed, all in one process (small networks).")
    ] = "",
    check: Annotated[
        bool,
        typer.Option("--check", help="Only check models, environment, code and devices of this machine."),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="With --check: print JSON for scripts.")] = False,
) -> None:
    """Run an experiment on this machine in one process, without a server."""
    from troupe_client.cli.launching import local_command

    if as_json and not check:
        raise TroupeError("--json prints the result of a check; add --check")
    command = local_command(source, overrides or [], home(), seeds=seeds, check=check, as_json=as_json)
    require_server()
    os.execv(sys.executable, command)


@app.command(rich_help_panel=START)
def launch(  # noqa: PLR0913 - each is an option of the command
    source: Source,
    overrides: Overrides = None,
    name: RunName = "",
    project: InProject = "",
    tag: Tags = None,
    watch_it: Annotated[bool, typer.Option("--watch", help="Watch the run until it ends.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only check the config and list settings without effect.")
    ] = False,
    check: Annotated[
        bool,
        typer.Option("--check", help="Only check models, environment, code and devices on the cluster."),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Launch a run on the server."""
    from troupe_client.cli.launching import launch_body, unused

    if check and (watch_it or dry_run or name or tag):
        raise TroupeError("--check launches no run; omit --watch, --dry-run, --name and --tag")
    body = launch_body(source, overrides or [])
    settings = unused(source, overrides or [])
    for setting in settings:
        errors.print(f"warning: {setting}", style="yellow", markup=False, highlight=False, soft_wrap=True)
    if dry_run:
        if as_json:
            without_effect = [{"path": setting.path, "why": setting.why} for setting in settings]
            print_json({"config": body, "unused": without_effect})
        else:
            console.print("The config is valid. Nothing was launched.")
        return
    if check:
        return check_config(body | ({"project": project} if project else {}), as_json)
    body |= {key: value for key, value in (("name", name), ("project", project), ("tags", tag)) if value}
    server = find_server()
    launched = server.call("/api/v1/runs/", body | {"provenance": launch_provenance("command line", source)})
    print_launched(server, launched, as_json)
    if watch_it:
        watch(launched["id"])


@app.command(rich_help_panel=RUNS)
def runs(
    query: Annotated[str, typer.Argument(help="Words in the name, id or tags.")] = "",
    state: Annotated[str, typer.Option(help="Only runs in this state.")] = "",
    filter_text: Annotated[
        str, typer.Option("--filter", help="E.g. 'eval/success > 0.8 and tag = baseline'.")
    ] = "",
    columns: Annotated[
        str, typer.Option(help="Config fields and metrics to show, e.g. run.seed,eval/success:max.")
    ] = "",
    sort: Annotated[str, typer.Option(help="E.g. created, run.seed, or -eval/success: greatest first.")] = "",
    view: Annotated[str, typer.Option(help="A saved view; other options override its own.")] = "",
    limit: Annotated[int, typer.Option(help="Maximum number of runs.", min=1, max=500)] = 20,
    as_json: AsJson = False,
) -> None:
    """List runs, newest first."""
    parameters = {"q": query, "state": state, "filter": filter_text, "columns": columns, "sort": sort}
    server = find_server()
    if view:
        saved = {key: value for key, value in view_find(server, view)["query"].items() if key != "group"}
        parameters = saved | {key: value for key, value in parameters.items() if value}
    listed = server.call("/api/v1/runs/", **parameters, limit=limit)["results"]
    if as_json:
        print_json(listed)
    elif listed:
        print_table(*runs_table(listed))
    elif query or state or filter_text or view:
        console.print("No such run.")
    else:
        console.print("No runs yet. Launch one: troupe launch plan_path_duo")


@app.command(rich_help_panel=RUNS)
def show(run_id: RunId, as_json: AsJson = False) -> None:
    """Show state, progress, metrics and last log lines of a run."""
    from troupe_client.cli.watching import read_panel

    run, panel = read_panel(find_server(), run_id)
    print_json(run) if as_json else print_wide(panel)


@app.command(rich_help_panel=RUNS)
def watch(
    run_id: RunId,
    interval: Annotated[float, typer.Option(help="Seconds between updates.", min=0.1)] = 1.0,
) -> None:
    """Watch a run in the terminal until it ends."""
    from troupe_client.cli.watching import watch_run

    watch_run(find_server(), run_id, interval)


@app.command(rich_help_panel=RUNS)
def logs(
    run_id: RunId,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Continue until the run ends.")] = False,
    limit: Annotated[int, typer.Option(help="Number of latest lines to start with.", min=1, max=2000)] = 200,
    source: Annotated[
        str | None, typer.Option(help="Only lines of this source, such as driver or environment-0.")
    ] = None,
    level: Annotated[
        str | None,
        typer.Option(help="Only lines of this level and above: debug, output, info, warning, error."),
    ] = None,
    search: Annotated[
        str | None,
        typer.Option("--search", "-q", help="Only lines with this text in their source or message."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per line.")] = False,
) -> None:
    """Print a run's log; with --follow, exit with 1 if the run fails."""
    from troupe_client.cli.watching import print_log

    chosen = {"source": source, "level": level, "q": search}
    raise typer.Exit(print_log(find_server(), run_id, limit, follow=follow, as_json=as_json, **chosen))


def _act(run_id: str, act: str, as_json: bool, body: dict[str, Any] | None = None) -> None:
    changed = find_server().call(run_path(run_id, f"{act}/"), body or {})
    reason = changed["reason"] if changed["state"] == "stopping" else ""
    print_result(changed, as_json, "  ".join(filter(None, (changed["id"], changed["state"], reason))))


Now = Annotated[
    bool,
    typer.Option("--now", help="Do not wait for the current iteration; its work is lost."),
]


@app.command(rich_help_panel=RUNS)
def stop(run_id: RunId, now: Now = False, as_json: AsJson = False) -> None:
    """Stop a run after its current iteration, with a checkpoint."""
    _act(run_id, "stop", as_json, {"now": now})


@app.command(rich_help_panel=RUNS)
def pause(run_id: RunId, now: Now = False, as_json: AsJson = False) -> None:
    """Checkpoint a run and release its devices; `resume` continues it."""
    _act(run_id, "pause", as_json, {"now": now})


@app.command(rich_help_panel=RUNS)
def resume(
    run_id: RunId,
    overrides: Annotated[
        list[str] | None, typer.Argument(help="Fields to change from now on: key=value.")
    ] = None,
    checkpoint: Annotated[
        str, typer.Option("--from", help="Checkpoint to start from: last, best, or an iteration.")
    ] = "",
    as_json: AsJson = False,
) -> None:
    """Resume from the last checkpoint as a new attempt, optionally with config overrides."""
    from training_core.config.files import parse_overrides

    chosen = {"checkpoint": checkpoint} if checkpoint else {}
    _act(run_id, "resume", as_json, {"overrides": parse_overrides(overrides or []), **chosen})


@app.command(rich_help_panel=START)
def presets(
    find: Annotated[list[str] | None, typer.Argument(help="Words that a preset must contain.")] = None,
    as_json: AsJson = False,
) -> None:
    """List presets by task, for language models and small networks."""
    from troupe_client.cli import launching

    trees = launching.presets(" ".join(find or []))
    if as_json:
        return print_json(trees)
    for line in launching.preset_lines(trees):
        console.print(line, highlight=False)


@app.command(rich_help_panel=RUNS)
def sync(run_id: RunId, as_json: AsJson = False) -> None:
    """Deliver events that a dead run left on disk; safe to repeat."""
    from troupe_client.cli.shipping import ship_run

    shipped = ship_run(find_server(), run_id)
    print_result(
        vars(shipped),
        as_json,
        f"{shipped.events} events of {shipped.spools} spools delivered, {shipped.rejected} refused and set aside",
    )


@app.command(rich_help_panel=START)
def doctor(as_json: AsJson = False) -> None:
    """Check this installation and name a remedy for each problem."""
    from troupe_client.cli.doctor import examine

    findings = examine()
    if as_json:
        print_json([vars(finding) for finding in findings])
    colours = {"ok": "green", "note": "yellow", "bad": "red"}
    for finding in findings if not as_json else []:
        mark = f"[{colours[finding.level]}]{finding.level:4}[/]"
        console.print(f"{mark} {finding.what}: {escape(finding.text)}", highlight=False, soft_wrap=True)
    sys.exit(1 if any(finding.level == "bad" for finding in findings) else 0)


add_groups(app)


if __name__ == "__main__":
    main()
