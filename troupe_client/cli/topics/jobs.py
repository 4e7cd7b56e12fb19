"""Short jobs: dry run, prepare, evaluate, swap, match, talk, worth, what-if; their state and results."""

import time
from typing import Annotated, Any

import typer
from rich.text import Text

from training_core.config.files import parse_overrides
from troupe_client.cli.arguments import AsJson, Overrides, Preset, RunId
from troupe_client.cli.output import (
    console,
    errors,
    plain_table,
    print_json,
    print_line,
    print_table,
    visible,
)
from troupe_client.cli.show import number
from troupe_client.server_api import Server, ServerFailure, find_server

app = typer.Typer()
experiment_jobs = typer.Typer()
checkpoint_jobs = typer.Typer()
NoWait = Annotated[bool, typer.Option("--no-wait", help="Do not wait for the job to end.")]
Checkpoint = Annotated[str, typer.Argument(help="Iteration, name, last, best, or base for the base models.")]
NearCheckpoint = Annotated[
    str, typer.Option(help="As of `evaluate`; default: the last, or the nearest one to a stored episode.")
]
Parameters = Annotated[
    list[str] | None,
    typer.Argument(help="name=value of alternatives, continuations, outcome, discount or max_tokens."),
]
JobId = Annotated[str, typer.Argument(help="Id of the job, as `troupe job list` shows it.")]
Opponent = Annotated[str, typer.Argument(help="RUN or RUN:CHECKPOINT.")]
Episodes = Annotated[int, typer.Option(help="Number of held-out tasks.", min=1)]
Sampled = Annotated[bool, typer.Option(help="Sample instead of playing greedily.")]
ENDED = ("finished", "failed", "cancelled")
POLL_SECONDS = 0.5
FAILED = 1
CHECK_STATES = {
    "passed": ("passed", "green"),
    "warning": ("warning", "yellow"),
    "failed": ("failed", "red"),
    "unknown": ("not known", "yellow"),
}
"""State of a check -> its word and colour."""


@experiment_jobs.command("dry-run")
def dry_run(
    preset: Preset,
    overrides: Overrides = None,
    episodes: Annotated[int, typer.Option(help="Number of episodes.", min=1)] = 1,
    no_wait: NoWait = False,
    as_json: AsJson = False,
) -> None:
    """Play training episodes with the base models before a launch; small networks also run a short update."""
    body = {"preset": preset, "overrides": parse_overrides(overrides or [])}
    _start("dry_run", body | {"parameters": {"episodes": episodes}}, no_wait, as_json)


@experiment_jobs.command("prepare")
def prepare(
    preset: Preset, overrides: Overrides = None, no_wait: NoWait = False, as_json: AsJson = False
) -> None:
    """Create or convert the base models of an experiment on the server before its first run."""
    _start("prepare", {"preset": preset, "overrides": parse_overrides(overrides or [])}, no_wait, as_json)


@checkpoint_jobs.command("evaluate")
def evaluate(
    run_id: RunId,
    checkpoint: Checkpoint = "last",
    overrides: Overrides = None,
    episodes: Episodes = 32,
    sampled: Sampled = False,
    first: Annotated[int, typer.Option(help="Number of the first task.", min=0)] = 0,
    no_wait: NoWait = False,
    as_json: AsJson = False,
) -> None:
    """Evaluate a checkpoint on more episodes or on other tasks."""
    parameters = {"episodes": episodes, "first": first, "kind": "eval_sampled" if sampled else "eval"}
    body = {"run": run_id, "checkpoint": checkpoint, "overrides": parse_overrides(overrides or [])}
    _start("evaluate", body | {"parameters": parameters}, no_wait, as_json)


@checkpoint_jobs.command("swap")
def swap(
    run_id: RunId,
    checkpoint: Checkpoint = "last",
    episodes: Episodes = 32,
    sampled: Sampled = False,
    no_wait: NoWait = False,
    as_json: AsJson = False,
) -> None:
    """Evaluate a checkpoint with each role played by the policy of another role."""
    kind = "eval_sampled" if sampled else "eval"
    parameters = {"episodes": episodes, "kind": kind, "swapped": True}
    body = {"run": run_id, "checkpoint": checkpoint, "parameters": parameters}
    _start("evaluate", body, no_wait, as_json)


@checkpoint_jobs.command("match")
def match(
    one: Opponent,
    other: Opponent,
    episodes: Annotated[int, typer.Option(help="Tasks per assignment of roles.", min=1)] = 32,
    no_wait: NoWait = False,
    as_json: AsJson = False,
) -> None:
    """Match two checkpoints on the same tasks in every assignment of roles."""
    (run, _, checkpoint), (other_run, _, other_checkpoint) = one.partition(":"), other.partition(":")
    body = {"run": run, "checkpoint": checkpoint, "other_run": other_run, "other": other_checkpoint}
    _start("match", body | {"parameters": {"episodes": episodes}}, no_wait, as_json)


@checkpoint_jobs.command("talk")
def talk(
    run_id: RunId,
    checkpoint: Checkpoint = "last",
    role: Annotated[
        list[str] | None, typer.Option("--as", help="A role that you play; may be repeated.")
    ] = None,
    task: Annotated[int, typer.Option(help="Number of the held-out task.", min=0)] = 0,
) -> None:
    """Play an episode together with the policies of a checkpoint."""
    if not role:
        raise ServerFailure("name the role that you play: --as ROLE")
    server = find_server()
    body = {"kind": "talk", "run": run_id, "checkpoint": checkpoint}
    job = server.call("/api/v1/jobs/", body | {"parameters": {"roles": role, "task": task}})
    shown = 0
    while job["state"] not in ENDED:
        moment = job.get("moment") or {"moves": [], "asked": None}
        for move in moment["moves"][shown:]:
            text, info = Text(visible(move["text"])), Text(f"  {move['info']}", "dim")
            console.print(Text(f"{move['role']}: ", "bold"), text, info)
        shown = max(shown, len(moment["moves"]))
        if moment["asked"]:
            console.print(Text(visible(moment["asked"]["saw"])))
            words = typer.prompt(f"{moment['asked']['role']} (you)", default="", show_default=False)
            server.call(f"/api/v1/jobs/{job['id']}/say/", {"turn": moment["asked"]["turn"], "text": words})
        time.sleep(POLL_SECONDS)
        job = server.call(f"/api/v1/jobs/{job['id']}/")
    _show(job)


@checkpoint_jobs.command("worth")
def worth(
    run_id: RunId,
    parameters: Parameters = None,
    checkpoint: NearCheckpoint = "",
    episode: Annotated[
        int, typer.Option(help="Id of a stored episode; 0: play new ones of the checkpoint.", min=0)
    ] = 0,
    episodes: Annotated[int, typer.Option(help="Number of new episodes.", min=1)] = 4,
    no_wait: NoWait = False,
    as_json: AsJson = False,
) -> None:
    """Measure what each message was worth: the episode's value after it, less that after other answers to its prompt."""
    subject = {"episode": episode} if episode else {"episodes": episodes}
    values = parse_overrides(parameters or []) | subject
    body = {"run": run_id, "checkpoint": checkpoint, "parameters": values}
    _start("worth", body, no_wait, as_json)


@checkpoint_jobs.command("what-if")
def what_if(
    run_id: RunId,
    episode: Annotated[int, typer.Argument(help="Id of a stored episode.")],
    turn: Annotated[int, typer.Argument(help="Number of the message in it.", min=1)],
    text: Annotated[str, typer.Argument(help="The answer that replaces the message.")],
    checkpoint: NearCheckpoint = "",
    episodes: Annotated[int, typer.Option(help="Episodes, each played on to its end.", min=1)] = 4,
    no_wait: NoWait = False,
    as_json: AsJson = False,
) -> None:
    """Replace a message of a stored episode and play on."""
    parameters = {"episode": episode, "turn": turn, "text": text, "episodes": episodes}
    body = {"run": run_id, "checkpoint": checkpoint, "parameters": parameters}
    _start("what_if", body, no_wait, as_json)


@app.command("list")
def job_list(as_json: AsJson = False) -> None:
    """List the latest short jobs."""
    rows = find_server().call("/api/v1/jobs/")["results"]
    if as_json:
        return print_json(rows)
    table = plain_table("id", "kind", "state", "run", "success", "return")
    for row in rows:
        result = row["result"]
        table.add_row(
            row["id"], row["kind"], row["state"], row["run"] or "–",
            number(result.get("success")), number(result.get("return")),
        )  # fmt: skip
    print_table(table)


@app.command("show")
def job_show(job_id: JobId, as_json: AsJson = False) -> None:
    """Show the state and the result of a short job."""
    current = find_server().call(_path(job_id))
    print_json(current) if as_json else _show(current)


@app.command("cancel")
def job_cancel(job_id: JobId, as_json: AsJson = False) -> None:
    """Cancel a short job."""
    server = find_server()
    server.call(_path(job_id, "cancel/"), {})
    current = server.call(_path(job_id))
    print_json(current) if as_json else _show(current)


def check_config(body: dict[str, Any], as_json: bool) -> None:
    """Check a config where its run would run, and print the checks; exits with 1 if one failed."""
    server = find_server()
    job = _wait(server, server.call("/api/v1/jobs/", {"kind": "check"} | body))
    result = job["result"]
    if as_json:
        print_json({name: job[name] for name in ("id", "state", "message")} | result)
    else:
        _show(job)
    if job["state"] != "finished" or result["failed"]:
        raise typer.Exit(FAILED)


def _start(kind: str, body: dict[str, Any], no_wait: bool, as_json: bool) -> None:
    server = find_server()
    job = server.call("/api/v1/jobs/", {"kind": kind} | body)
    if not no_wait:
        job = _wait(server, job)
    print_json(job) if as_json else _show(job)
    if job["state"] == "failed":
        raise typer.Exit(FAILED)


def _wait(server: Server, job: dict[str, Any]) -> dict[str, Any]:
    with errors.status("queued") as status:
        while job["state"] not in ENDED:
            time.sleep(POLL_SECONDS)
            job = server.call(_path(job["id"]))
            status.update(f"{job['state']}: {job['progress']:.0%} {visible(job['message'])}")
    return job


def _show(job: dict[str, Any]) -> None:
    """Print the state, the figures, and the turns of a single episode."""
    print_line(f"{job['kind']} {job['id']}: {job['state']} {job['message']}")
    result, returned = job["result"], job.get("return_label", "return")
    for setting in result.get("unused", []):
        print_line(f"  {setting['path']}: {setting['why']}", "yellow")
    if result.get("checks"):
        _show_checks(result["checks"])
    for assignment in result.get("seatings", []):
        roles = ", ".join(f"{role}: {side}" for role, side in assignment["seats"].items())
        print_line(f"  {roles}  {_outcome(assignment, returned)}")
    if "return" in result:
        print_line(
            f"  {result['episodes']} episode{'s' * (result['episodes'] != 1)}: {_outcome(result, returned)}"
        )
    if "worth" in result:
        _show_worth(result)
    for policy in result.get("policies", []):
        print_line(
            f"  {policy['policy']}: {len(policy['agents'])} agents, {policy['observation']} observed numbers, "
            f"{policy['actions']}, {policy['actor']} + {policy['critic']} parameters"
        )
    if "steps_per_second" in result:
        print_line(
            f"  {result['steps_per_second']:.0f} environment steps per second: "
            f"{result['iteration_seconds']:.1f} s per iteration, "
            f"{result['run_seconds'] / 60:.1f} min in total without evaluations"
        )
    episodes = job.get("episodes") or []
    if "policies" in result or "worth" in result:
        return  # the page shows moves of small networks, and continuations
    for turn in episodes[0]["turns"] if len(episodes) == 1 else []:
        answer = turn["candidates"][turn["executed"]]
        print_line(f"  {turn['role']}: {answer['text']}  ({number(answer['reward'])})")


def _show_worth(result: dict[str, Any]) -> None:
    """Print the sum of the messages' worths by role, and the messages with the lowest worth."""
    for role, total in result["worth"].items():
        half = "" if total["half_width"] is None else f" ± {total['half_width']:.3f}"
        influence = "" if total["influence"] is None else f", influence {total['influence']:.3f}"
        print_line(f"  {role}: {total['worth']:+.3f}{half}{influence}")
    left_out = f", {result['left_out']} left out by the limit of tokens" if result["left_out"] else ""
    print_line(f"  {result['messages']} messages, {result['tokens']} sampled tokens{left_out}")
    for reason in result["refused"]:
        print_line(f"  left out: {reason}", "yellow")
    table = plain_table("episode", "message", "worth", "± 95 %", "answer", wrap=("answer",))
    for message in result["lowest"]:
        numbers = f"{message['worth']:+.3f}", f"{message['half_width']:.3f}"
        name = f"{message['role']} #{message['turn']}"
        table.add_row(str(message["episode"] + 1), name, *numbers, Text(visible(message["text"])))
    print_table(table)


def _show_checks(checks: list[dict[str, str]]) -> None:
    table = plain_table("state", "check", "result", wrap=("check", "result"))
    for check in checks:
        word, colour = CHECK_STATES[check["state"]]
        result = f"{check['text']} {check['remedy']}".strip()
        table.add_row(Text(word, colour), Text(visible(check["name"])), Text(visible(result)))
    print_table(table)


def _path(job_id: str, below: str = "") -> str:
    if not (job_id.isascii() and job_id.isalnum()):
        raise ServerFailure(f"{job_id!r} is not a job id; `troupe job list` lists them")
    return f"/api/v1/jobs/{job_id}/{below}"


def _outcome(figures: dict[str, Any], returned: str) -> str:
    """Success, if the environment reports it, and return; otherwise the return, in total and by role."""
    if "success" in figures:
        return f"success {figures['success']:.3f}{_interval(figures)}, {returned} {figures['return']:.3f}"
    spread = f" ± {figures['return_std']:.3f}" if "return_std" in figures else ""
    roles = figures["rewards"] if len(figures["rewards"]) > 1 else {}
    by_role = "".join(f", {role} {reward:.3f}" for role, reward in roles.items())
    return f"{returned} {figures['return']:.3f}{spread}{by_role}"


def _interval(figures: dict[str, Any]) -> str:
    """The 95 % confidence interval of the success, if it is known."""
    interval = figures.get("success_interval")
    return f" ({interval[0]:.3f} to {interval[1]:.3f})" if interval else ""
