"""The `troupe` command: everything the pages can do, from a terminal.

Imports stay light (no Django, Ray or torch), so that it answers at once.
"""

import json
import os
import sys
import time
from typing import Annotated, Any

import typer
from rich.markup import escape

from training_core.errors import TroupeError
from troupe_client.cli.installed import require_server
from troupe_client.cli.show import ENDED, console, errors, log_line, runs_table
from troupe_client.cli.topics.registry import TOPICS
from troupe_client.cli.topics.views import view_find
from troupe_client.server_api import ROOT, find_server, home, run_path

app = typer.Typer(
    name="troupe",
    help="A lab for multi-agent reinforcement learning: launch, watch, read, diagnose, fork.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_show_locals=False,
)
RunId = Annotated[str, typer.Argument(help="Id of the run, as `troupe runs` shows it.")]
Source = Annotated[str, typer.Argument(help="A preset's name, or a .toml file.")]
Overrides = Annotated[list[str] | None, typer.Argument(help="Fields to change: key=value, e.g. run.seed=1.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for scripts.")]


def main() -> None:
    """The console script: our own errors are sentences, not tracebacks. Exit status 1 for them, 2 for usage."""
    try:
        _call()
    except TroupeError as error:
        fields: dict[str, str] = getattr(error, "fields", {})
        for path, text in fields.items():
            errors.print(f"{path or 'error'}: {text}", style="red", markup=False, highlight=False)
        if not fields:
            errors.print(f"error: {error}", style="red", markup=False, highlight=False)
        sys.exit(1)


def _call() -> None:
    try:
        app()
    except ModuleNotFoundError:
        require_server()
        raise


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def up(context: typer.Context) -> None:
    """Start the whole stack on this machine and print a link. Ctrl-C ends everything."""
    require_server()
    manage = ROOT / "manage.py"
    words = [str(manage), "up"] if manage.exists() else ["-m", "webapp.stack"]
    if not manage.exists() and not os.environ.get("TROUPE_HOME"):
        raise TroupeError("set TROUPE_HOME to a folder for data: this is no checkout, which would have var/")
    os.execv(sys.executable, [sys.executable, *words, *context.args])


@app.command()
def run(source: Source, overrides: Overrides = None) -> None:
    """Run an experiment here, in one process, without Ray and without the web."""
    from troupe_client.cli.launching import local_command

    command = local_command(source, overrides or [], home())
    require_server()
    os.execv(sys.executable, command)


@app.command()
def launch(
    source: Source,
    overrides: Overrides = None,
    name: Annotated[str, typer.Option(help="Shown in tables.")] = "",
    project: Annotated[str, typer.Option(help="Slug of the project; default: your first.")] = "",
    tag: Annotated[list[str] | None, typer.Option(help="A tag; may be given several times.")] = None,
    watch_it: Annotated[bool, typer.Option("--watch", help="Stay and watch it.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only check the config, and name settings without effect.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Launch a run on the server. Settings without effect are named on standard error."""
    from troupe_client.cli.launching import launch_body, unused

    body = launch_body(source, overrides or [])
    told = unused(source, overrides or [])
    for setting in told:
        errors.print(f"warning: {setting}", style="yellow", markup=False, highlight=False, soft_wrap=True)
    if dry_run:
        if as_json:
            _print_json({"config": body, "unused": [{"path": each.path, "why": each.why} for each in told]})
        else:
            console.print("The config is valid. Nothing was launched.")
        return
    body |= {key: value for key, value in (("name", name), ("project", project), ("tags", tag)) if value}
    server = find_server()
    made = server.call("/api/v1/runs/", body)
    if as_json:
        _print_json(made)
    else:
        page = server.address(made["links"]["page"])
        console.print(f"{made['id']}  {made['state']}  {page}", highlight=False, soft_wrap=True)
    if watch_it:
        watch(made["id"])


@app.command()
def runs(
    query: Annotated[str, typer.Argument(help="Words in name, id or tags.")] = "",
    state: Annotated[str, typer.Option(help="Only runs in this state.")] = "",
    filter_text: Annotated[
        str, typer.Option("--filter", help="E.g. 'eval/success > 0.8 and tag = baseline'.")
    ] = "",
    columns: Annotated[
        str, typer.Option(help="Config fields and metrics to show, e.g. run.seed,eval/success:max.")
    ] = "",
    sort: Annotated[
        str, typer.Option(help="E.g. created, run.seed, or -eval/success: the greatest first.")
    ] = "",
    view: Annotated[str, typer.Option(help="A saved view; other options go before its own.")] = "",
    limit: Annotated[int, typer.Option(help="At most so many.", min=1, max=500)] = 20,
    as_json: AsJson = False,
) -> None:
    """List runs, newest first."""
    asked = {"q": query, "state": state, "filter": filter_text, "columns": columns, "sort": sort}
    server = find_server()
    if view:
        kept = {word: text for word, text in view_find(server, view)["query"].items() if word != "group"}
        asked = kept | {word: text for word, text in asked.items() if text}
    found = server.call("/api/v1/runs/", **asked, limit=limit)["results"]
    if as_json:
        _print_json(found)
    elif found:
        console.print(runs_table(found))
    elif query or state or filter_text or view:
        console.print("No such run.")
    else:
        console.print("No runs yet. Launch one: troupe launch plan_path_duo")


@app.command()
def watch(
    run_id: RunId,
    interval: Annotated[float, typer.Option(help="Seconds between looks.", min=0.1)] = 1.0,
    once: Annotated[bool, typer.Option("--once", help="Look once and end.")] = False,
) -> None:
    """Watch a run in the terminal until it ends."""
    from troupe_client.cli.watching import watch_run

    watch_run(find_server(), run_id, interval, once=once)


@app.command()
def logs(
    run_id: RunId,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until the run ends.")] = False,
    limit: Annotated[int, typer.Option(help="Lines to begin with.", min=1, max=2000)] = 200,
) -> None:
    """Print a run's log."""
    server, last = find_server(), 0
    try:
        while True:
            lines = server.call(run_path(run_id, "logs/"), after=last or None, limit=limit)["results"]
            for line in lines:
                console.print(log_line(line), soft_wrap=True)
                last = line["id"]
            if not follow or (not lines and server.call(run_path(run_id))["state"] in ENDED):
                return
            time.sleep(0.0 if len(lines) == limit else 1.0)
    except KeyboardInterrupt:
        return


def _act(run_id: str, act: str, as_json: bool, body: dict[str, Any] | None = None) -> None:
    found = find_server().call(run_path(run_id, f"{act}/"), body or {})
    if as_json:
        _print_json(found)
    else:
        waits = found["reason"] if found["state"] == "stopping" else ""
        line = "  ".join(filter(None, (found["id"], found["state"], waits)))
        console.print(line, markup=False, highlight=False, soft_wrap=True)


Now = Annotated[
    bool,
    typer.Option("--now", help="Do not wait for the iteration under way: what it has done is lost."),
]


@app.command()
def stop(run_id: RunId, now: Now = False, as_json: AsJson = False) -> None:
    """End a run: it completes its iteration and writes a checkpoint first."""
    _act(run_id, "stop", as_json, {"now": now})


@app.command()
def pause(run_id: RunId, now: Now = False, as_json: AsJson = False) -> None:
    """Complete the iteration, write a checkpoint, end the run and give its devices back; `resume` continues."""
    _act(run_id, "pause", as_json, {"now": now})


@app.command()
def resume(
    run_id: RunId,
    overrides: Annotated[
        list[str] | None, typer.Argument(help="Fields to change from here on: key=value.")
    ] = None,
    checkpoint: Annotated[
        str, typer.Option("--from", help="Checkpoint to start from: last, best, or an iteration.")
    ] = "",
    as_json: AsJson = False,
) -> None:
    """Resume a run from its last whole checkpoint, in a new attempt, with fields of the config changed where wanted."""
    from training_core.config.files import parse_overrides

    chosen = {"checkpoint": checkpoint} if checkpoint else {}
    _act(run_id, "resume", as_json, {"overrides": parse_overrides(overrides or []), **chosen})


@app.command()
def presets(
    find: Annotated[list[str] | None, typer.Argument(help="Words that a preset is to have.")] = None,
    as_json: AsJson = False,
) -> None:
    """List the presets that ship with Troupe: of language models, then of small networks, task by task."""
    from troupe_client.cli import launching

    trees = launching.presets(" ".join(find or []))
    if as_json:
        return _print_json(trees)
    for line in launching.preset_lines(trees):
        console.print(line, highlight=False)


@app.command()
def sync(run_id: RunId) -> None:
    """Deliver what a dead run left on this machine's disk; safe to repeat."""
    from troupe_client.cli.shipping import ship_run

    shipped = ship_run(find_server(), run_id)
    console.print(
        f"{shipped.events} events of {shipped.spools} spools delivered, {shipped.rejected} refused and set aside",
        highlight=False,
    )


@app.command()
def doctor(as_json: AsJson = False) -> None:
    """Look at what is installed here, and say what to do."""
    from troupe_client.cli.doctor import examine

    findings = examine()
    if as_json:
        _print_json([vars(finding) for finding in findings])
    colours = {"ok": "green", "note": "yellow", "bad": "red"}
    for finding in findings if not as_json else []:
        mark = f"[{colours[finding.level]}]{finding.level:4}[/]"
        console.print(f"{mark} {finding.what}: {escape(finding.text)}", highlight=False, soft_wrap=True)
    sys.exit(1 if any(finding.level == "bad" for finding in findings) else 0)


for topic in TOPICS:
    app.add_typer(topic)


def _print_json(value: Any) -> None:
    sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
