"""Short jobs: dry run, evaluate, match, talk; how they stand, what came out."""

import json
import time
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from training_core.config.files import parse_overrides
from troupe_client.cli.show import console, errors, number, visible
from troupe_client.server_api import Server, ServerFailure, find_server

app = typer.Typer()
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for scripts.")]
NoWait = Annotated[bool, typer.Option("--no-wait", help="Do not wait for the end.")]
Overrides = Annotated[list[str] | None, typer.Argument(help="Config fields, path=value.")]
ENDED = ("finished", "failed", "cancelled")
LOOK = 0.5
FAILED = 1


@app.command()
def dry_run(
    preset: Annotated[str, typer.Argument(help="A preset's name.")],
    overrides: Overrides = None,
    episodes: Annotated[int, typer.Option(help="How many.", min=1)] = 1,
    no_wait: NoWait = False,
    as_json: AsJson = False,
) -> None:
    """Play training episodes with the base models, before a run spends anything; small networks also learn a little."""
    body = {"preset": preset, "overrides": parse_overrides(overrides or [])}
    _start("dry_run", body | {"parameters": {"episodes": episodes}}, no_wait, as_json)


@app.command()
def prepare(
    preset: Annotated[str, typer.Argument(help="A preset's name.")],
    overrides: Overrides = None,
    no_wait: NoWait = False,
    as_json: AsJson = False,
) -> None:
    """Make or convert the base models of an experiment on the server, before its first run."""
    _start("prepare", {"preset": preset, "overrides": parse_overrides(overrides or [])}, no_wait, as_json)


@app.command()
def evaluate(
    run_id: Annotated[str, typer.Argument(help="Id of the run.")],
    checkpoint: Annotated[
        str, typer.Argument(help="Iteration, name, latest, best, or base for the base models.")
    ] = "latest",
    overrides: Overrides = None,
    episodes: Annotated[int, typer.Option(help="How many held-out tasks.", min=1)] = 32,
    sampled: Annotated[bool, typer.Option(help="Sample in place of greedy play.")] = False,
    first: Annotated[int, typer.Option(help="Number of the first task.", min=0)] = 0,
    no_wait: NoWait = False,
    as_json: AsJson = False,
) -> None:
    """Evaluate a checkpoint again: more episodes, other tasks."""
    parameters = {"episodes": episodes, "first": first, "kind": "eval_sampled" if sampled else "eval"}
    body = {"run": run_id, "checkpoint": checkpoint, "overrides": parse_overrides(overrides or [])}
    _start("evaluate", body | {"parameters": parameters}, no_wait, as_json)


@app.command()
def swap(
    run_id: Annotated[str, typer.Argument(help="Id of the run.")],
    checkpoint: Annotated[str, typer.Argument(help="Iteration, name, latest, best, or base.")] = "latest",
    episodes: Annotated[int, typer.Option(help="How many held-out tasks.", min=1)] = 32,
    sampled: Annotated[bool, typer.Option(help="Sample in place of greedy play.")] = False,
    no_wait: NoWait = False,
    as_json: AsJson = False,
) -> None:
    """Evaluate a checkpoint with each role played by the policy of another."""
    kind = "eval_sampled" if sampled else "eval"
    parameters = {"episodes": episodes, "kind": kind, "swapped": True}
    body = {"run": run_id, "checkpoint": checkpoint, "parameters": parameters}
    _start("evaluate", body, no_wait, as_json)


@app.command()
def match(
    one: Annotated[str, typer.Argument(help="RUN or RUN:CHECKPOINT.")],
    other: Annotated[str, typer.Argument(help="RUN or RUN:CHECKPOINT.")],
    episodes: Annotated[int, typer.Option(help="Tasks per seating.", min=1)] = 32,
    no_wait: NoWait = False,
    as_json: AsJson = False,
) -> None:
    """Let two checkpoints play the same tasks, in every seating of the roles."""
    (run, _, checkpoint), (other_run, _, rival) = one.partition(":"), other.partition(":")
    body = {"run": run, "checkpoint": checkpoint, "other_run": other_run, "other": rival}
    _start("match", body | {"parameters": {"episodes": episodes}}, no_wait, as_json)


@app.command()
def talk(
    run_id: Annotated[str, typer.Argument(help="Id of the run.")],
    checkpoint: Annotated[str, typer.Argument(help="Iteration, name, latest, best or base.")] = "latest",
    role: Annotated[list[str] | None, typer.Option("--as", help="A role that you play; repeatable.")] = None,
    task: Annotated[int, typer.Option(help="Number of the held-out task.", min=0)] = 0,
) -> None:
    """Play an episode by hand beside a checkpoint's policies."""
    if not role:
        raise ServerFailure("name the role that you play: --as ROLE")
    server = find_server()
    body = {"kind": "talk", "run": run_id, "checkpoint": checkpoint}
    job = server.call("/api/v1/jobs/", body | {"parameters": {"roles": role, "task": task}})
    seen = 0
    while job["state"] not in ENDED:
        now = job.get("moment") or {"moves": [], "asked": None}
        for move in now["moves"][seen:]:
            console.print(
                Text(f"{move['role']}: ", "bold"),
                Text(visible(move["text"])),
                Text(f"  {move['info']}", "dim"),
            )
        seen = max(seen, len(now["moves"]))
        if now["asked"]:
            console.print(Text(visible(now["asked"]["saw"])))
            words = typer.prompt(f"{now['asked']['role']} (you)", default="", show_default=False)
            server.call(f"/api/v1/jobs/{job['id']}/say/", {"turn": now["asked"]["turn"], "text": words})
        time.sleep(LOOK)
        job = server.call(f"/api/v1/jobs/{job['id']}/")
    _show(job)


@app.command(name="jobs")
def jobs_(as_json: AsJson = False) -> None:
    """The latest short jobs."""
    found = find_server().call("/api/v1/jobs/")["results"]
    if as_json:
        return typer.echo(json.dumps(found, indent=2))
    table = Table("id", "kind", "state", "run", "success", "return", box=None, header_style="dim")
    for job in found:
        result = job["result"]
        table.add_row(
            job["id"], job["kind"], job["state"], job["run"] or "–",
            number(result.get("success")), number(result.get("return")),
        )  # fmt: skip
    console.print(table)


@app.command()
def job(
    job_id: Annotated[str, typer.Argument(help="Id of the job.")],
    cancel: Annotated[bool, typer.Option(help="End it.")] = False,
    as_json: AsJson = False,
) -> None:
    """How a short job stands, and what came out."""
    server = find_server()
    if cancel:
        server.call(_path(job_id, "cancel/"), {})
    found = server.call(_path(job_id))
    if as_json:
        return typer.echo(json.dumps(found, indent=2))
    _show(found)


def _start(kind: str, body: dict[str, Any], no_wait: bool, as_json: bool) -> None:
    server = find_server()
    found = server.call("/api/v1/jobs/", {"kind": kind} | body)
    if not no_wait:
        found = _wait(server, found)
    typer.echo(json.dumps(found, indent=2)) if as_json else _show(found)
    if found["state"] == "failed":
        raise typer.Exit(FAILED)


def _wait(server: Server, found: dict[str, Any]) -> dict[str, Any]:
    with errors.status("queued") as status:
        while found["state"] not in ENDED:
            time.sleep(LOOK)
            found = server.call(_path(found["id"]))
            status.update(f"{found['state']}: {found['progress']:.0%} {visible(found['message'])}")
    return found


def _show(found: dict[str, Any]) -> None:
    """State, figures, and the first episode's words."""
    console.print(Text(f"{found['kind']} {found['id']}: {found['state']} {visible(found['message'])}"))
    result = found["result"]
    for each in result.get("unused", []):
        console.print(Text(f"  {each['path']} has no effect here: {each['why']}", "yellow"))
    for line in result.get("seatings", []):
        seats = ", ".join(f"{role}: {side}" for role, side in line["seats"].items())
        console.print(Text(f"  {seats}  {_outcome(line)}"))
    if "return" in result:
        console.print(
            Text(f"  {result['episodes']} episode{'s' * (result['episodes'] != 1)}: {_outcome(result)}")
        )
    for each in result.get("policies", []):
        console.print(
            Text(
                f"  {each['policy']}: {len(each['agents'])} agents, {each['observation']} numbers seen, {each['actions']}, "
                f"{each['actor']} + {each['critic']} parameters"
            )
        )
    if "steps_per_second" in result:
        console.print(
            Text(
                f"  {result['steps_per_second']:.0f} environment steps per second: {result['iteration_seconds']:.1f} s an iteration, "
                f"{result['run_seconds'] / 60:.1f} min in all, evaluations left out"
            )
        )
    episodes = found.get("episodes") or []
    if "policies" in result:
        return  # of small networks: whoever wants to see moves looks at the page
    for turn in episodes[0]["turns"] if len(episodes) == 1 else []:
        said = turn["candidates"][turn["executed"]]
        console.print(Text(f"  {turn['role']}: {visible(said['text'])}  ({number(said['reward'])})"))


def _path(job_id: str, below: str = "") -> str:
    if not (job_id.isascii() and job_id.isalnum()):
        raise ServerFailure(f"{job_id!r} is no job's id; `troupe jobs` lists them")
    return f"/api/v1/jobs/{job_id}/{below}"


def _outcome(figures: dict[str, Any]) -> str:
    """Success, where the environment knows it, and return; where only the return is known, by role."""
    if "success" in figures:
        return f"success {figures['success']:.3f}{_interval(figures)}, return {figures['return']:.3f}"
    spread = f" ± {figures['return_std']:.3f}" if "return_std" in figures else ""
    roles = figures["rewards"] if len(figures["rewards"]) > 1 else {}
    earned = "".join(f", {role} {reward:.3f}" for role, reward in roles.items())
    return f"return {figures['return']:.3f}{spread}{earned}"


def _interval(figures: dict[str, Any]) -> str:
    """The 95 % interval of the success, where it is known."""
    known = figures.get("success_interval")
    return f" ({known[0]:.3f} to {known[1]:.3f})" if known else ""
