"""The `troupe` command: everything the pages can do, from a terminal.

Imports stay light (no Django, Ray or torch), so that it answers at once.
"""

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Annotated, Any

import orjson
import typer
from rich.live import Live

from training_core.config.files import apply_overrides, parse_overrides, preset_names, read_preset, read_toml
from training_core.errors import ConfigError, TroupeError
from workers.cli.api import ROOT, Server, find_server, home
from workers.cli.doctor import examine
from workers.cli.show import ENDED, console, errors, run_panel, runs_table

app = typer.Typer(
    name="troupe",
    help="A lab for multi-agent reinforcement learning: launch, watch, read, diagnose, fork.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_show_locals=False,
)
RunId = Annotated[str, typer.Argument(help="Id of the run, as `troupe runs` shows it.")]
Overrides = Annotated[list[str] | None, typer.Argument(help="Fields to change: key=value, e.g. run.seed=1.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for scripts.")]
WATCHED = ("eval/success", "eval_sampled/success", "train/return", "rollout/tokens_per_second")


def main() -> None:
    """The console script: our own errors are sentences, not tracebacks."""
    try:
        app()
    except TroupeError as error:
        for path, text in getattr(error, "fields", {}).items():
            errors.print(f"[red]{path or 'error'}[/red]: {text}", highlight=False)
        if not getattr(error, "fields", {}):
            errors.print(f"[red]error[/red]: {error}", highlight=False)
        sys.exit(1)


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def up(context: typer.Context) -> None:
    """Start the whole stack on this machine and print a link. Ctrl-C ends everything."""
    manage = ROOT / "manage.py"
    if not manage.exists():
        raise TroupeError(
            f"{manage} is not there: `troupe up` needs the checkout that Troupe was installed from"
        )
    os.execv(sys.executable, [sys.executable, str(manage), "up", *context.args])


@app.command()
def run(
    source: Annotated[str, typer.Argument(help="A preset or a TOML file.")], overrides: Overrides = None
) -> None:
    """Run an experiment here, in one process, without Ray and without the web."""
    preset = ["--preset", source] if source in preset_names() else [source]
    command = [sys.executable, "-m", "workers.run", *preset, "--local", *(overrides or [])]
    sys.exit(subprocess.run([*command, "--home", str(home())], check=False).returncode)


@app.command()
def launch(
    source: Annotated[str, typer.Argument(help="A preset or a TOML file.")],
    overrides: Overrides = None,
    name: Annotated[str, typer.Option(help="Shown in tables.")] = "",
    project: Annotated[str, typer.Option(help="Slug of the project; default: your first.")] = "",
    tag: Annotated[list[str] | None, typer.Option(help="A tag; may be given several times.")] = None,
    watch_it: Annotated[bool, typer.Option("--watch", help="Stay and watch it.")] = False,
    as_json: AsJson = False,
) -> None:
    """Launch a run on the server."""
    server = find_server()
    body = _launch_body(source, overrides or [])
    body |= {key: value for key, value in (("name", name), ("project", project), ("tags", tag)) if value}
    made = server.call("/api/v1/runs/", body)
    if as_json:
        return _print_json(made)
    console.print(
        f"{made['id']}  {made['state']}  {server.url.rstrip('/')}{made['links']['page']}", highlight=False
    )
    if watch_it:
        watch(made["id"])


def _launch_body(source: str, words: list[str]) -> dict[str, Any]:
    """A preset goes by name; a file goes whole, overrides applied. Raises ConfigError."""
    changes = parse_overrides(words)
    if Path(source).suffix != ".toml":
        read_preset(source)
        return {"preset": source, "overrides": changes}
    try:
        tree = read_toml(Path(source).read_text())
    except OSError as error:
        raise ConfigError({source: f"cannot be read: {error.strerror}"}) from error
    return {"config": apply_overrides(tree, changes)}


@app.command()
def runs(
    query: Annotated[str, typer.Argument(help="Words in name, id or tags.")] = "",
    state: Annotated[str, typer.Option(help="Only runs in this state.")] = "",
    limit: Annotated[int, typer.Option(help="At most so many.")] = 20,
    as_json: AsJson = False,
) -> None:
    """List runs, newest first."""
    found = find_server().call("/api/v1/runs/", q=query, state=state, limit=limit)["results"]
    if as_json:
        return _print_json(found)
    if not found:
        console.print("No runs yet. Launch one: troupe launch plan_path_duo")
    else:
        console.print(runs_table(found))


@app.command()
def watch(
    run_id: RunId,
    interval: Annotated[float, typer.Option(help="Seconds between looks.")] = 1.0,
    once: Annotated[bool, typer.Option("--once", help="Look once and end.")] = False,
) -> None:
    """Watch a run in the terminal until it ends."""
    server = find_server()
    shown = _look(server, run_id)
    if once or not console.is_terminal:
        console.print(shown[1])
        while not once and shown[0] not in ENDED:
            time.sleep(interval)
            shown = _look(server, run_id)
        return
    with Live(shown[1], console=console, auto_refresh=False) as live:
        while shown[0] not in ENDED:
            time.sleep(interval)
            shown = _look(server, run_id)
            live.update(shown[1], refresh=True)


def _look(server: Server, run_id: str) -> tuple[str, Any]:
    found = server.call(f"/api/v1/runs/{run_id}/")
    series = server.call(f"/api/v1/runs/{run_id}/series/", keys=",".join(WATCHED), points=200)["series"]
    lines = server.call(f"/api/v1/runs/{run_id}/logs/", limit=5)["results"]
    return found["state"], run_panel(found, series, lines)


@app.command()
def logs(
    run_id: RunId,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until the run ends.")] = False,
    limit: Annotated[int, typer.Option(help="Lines to begin with.")] = 200,
) -> None:
    """Print a run's log."""
    server, last = find_server(), 0
    while True:
        lines = server.call(f"/api/v1/runs/{run_id}/logs/", after=last or None, limit=limit)["results"]
        for line in lines:
            text = f"{line['time'][:19]} {line['level']:7} {line['source']}: {line['message']}"
            console.print(text, markup=False, highlight=False, soft_wrap=True)
            last = line["id"]
        if not follow or (not lines and server.call(f"/api/v1/runs/{run_id}/")["state"] in ENDED):
            return
        time.sleep(1.0)


def _act(run_id: str, act: str) -> None:
    found = find_server().call(f"/api/v1/runs/{run_id}/{act}/", {})
    console.print(f"{found['id']}  {found['state']}", highlight=False)


@app.command()
def stop(run_id: RunId) -> None:
    """End a run: it writes a checkpoint first."""
    _act(run_id, "stop")


@app.command()
def pause(run_id: RunId) -> None:
    """Checkpoint a run, end it and give its devices back; `resume` goes on."""
    _act(run_id, "pause")


@app.command()
def resume(run_id: RunId) -> None:
    """Go on from the last checkpoint, in a new attempt."""
    _act(run_id, "resume")


@app.command()
def presets(as_json: AsJson = False) -> None:
    """List the presets that ship with Troupe."""
    trees = {name: read_preset(name) for name in preset_names()}
    if as_json:
        return _print_json(trees)
    for name, tree in trees.items():
        console.print(f"[bold]{name}[/bold]  {tree.get('run', {}).get('description', '')}", highlight=False)


@app.command()
def sync(run_id: RunId) -> None:
    """Deliver what a dead run left on this machine's disk; safe to repeat."""
    from workers.reporting.sync import ship_spool, undelivered

    folder = home() / "runs" / run_id
    if not folder.is_dir():
        raise TroupeError(f"there is no run folder {folder}; set TROUPE_HOME to where the run was made")
    server = find_server()
    waiting = undelivered(folder)
    with console.status(f"delivering {waiting} events"):
        shipped = ship_spool(folder, f"{server.url.rstrip('/')}/api/v1/runs/{run_id}/events/", server.token)
    console.print(
        f"{shipped.events} events of {shipped.spools} spools delivered, {shipped.rejected} refused and set aside"
    )


@app.command()
def doctor() -> None:
    """Look at what is installed here, and say what to do."""
    findings = examine()
    for finding in findings:
        mark = {"ok": "[green]ok  [/green]", "note": "[yellow]note[/yellow]", "bad": "[red]bad [/red]"}[
            finding.level
        ]
        console.print(f"{mark} {finding.what}: {finding.text}", highlight=False)
    sys.exit(1 if any(finding.level == "bad" for finding in findings) else 0)


def _print_json(value: Any) -> None:
    sys.stdout.write(orjson.dumps(value, option=orjson.OPT_INDENT_2).decode() + "\n")


if __name__ == "__main__":
    main()
