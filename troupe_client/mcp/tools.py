"""The tools of the MCP server by name. Descriptions are the docstrings of their functions, whose argument `rest` is not one of the tool."""

import asyncio
import time
from collections.abc import Iterator, Mapping
from inspect import cleandoc
from typing import Annotated, Any, Literal
from urllib.parse import quote

import mcp.types as protocol
from mcp.server.fastmcp.tools import Tool
from pydantic import BeforeValidator, Field, WithJsonSchema

from training_core.errors import TroupeError
from troupe_client.mcp.rest import Rest, bounded, brief, clipped, compact, number, quoted
from troupe_client.server_api import run_path

ENDED = ("finished", "stopped", "failed", "paused")
JOB_ENDED = ("finished", "failed", "cancelled")
LONGEST_WAIT, POLL = 45, 1.0
"""Seconds. Assistants abort a call after about 60 s."""
MOST_VALUES = 40
ASIDE = ("compute/", "progress/", "system/", "time/")
"""Metrics that `watch` leaves to `curves`."""
RUN = "id name state reason remedy iteration iterations eta_seconds findings parent"
EPISODE = "id iteration kind task outcome error truncated episode_return rewards"
FINDING = """id rule severity state lasting critical_first critical_last title first_step last_step figures series cause remedy
episodes edits action done fork"""

RULE = "rule state why value threshold nearest nearest_step measured key"
MOST_RULES = 8
"""Rules without a finding that `findings` adds."""


def _split(value: Any) -> Any:
    return [name for part in value.split(",") if (name := part.strip())] if isinstance(value, str) else value


_TEXTS = {"anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "string"}]}
_Names = Annotated[list[str], BeforeValidator(_split), WithJsonSchema(_TEXTS)]
"""A list, or a text with commas."""
Run = Annotated[str, Field(description="Id of a run.")]
Changes = Annotated[
    dict[str, Any] | None, Field(description='Dotted config paths to values: {"run.seed": 3}.')
]
Find = Annotated[str, Field(description="Only lines with any of these words.")]
Seconds = Annotated[float, Field(ge=0, le=LONGEST_WAIT, description="Maximum wait.")]
Metrics = Annotated[
    _Names | None,
    Field(description="Names, as a list or with commas; empty: list all, with their last values."),
]
Points = Annotated[int, Field(ge=4, le=200, description="Maximum number per curve.")]
Query = Annotated[str, Field(description="E.g. iteration >= 5 and planner.reward > 0.")]
Words = Annotated[str, Field(description='Words in prompts and answers; "a phrase", -without.')]
Characters = Annotated[int, Field(ge=50, le=4000, description="Maximum per text.")]
Several = Annotated[_Names, Field(min_length=2, max_length=20, description="Ids, as a list or with commas.")]


async def presets(rest: Rest, find: Find = "") -> str:
    """List presets, tested experiments to launch from: agents, purpose, expected result and duration."""
    lines = []
    for row in (await rest.call("/api/v1/presets/"))["results"]:
        expected = brief(row["expected"] or {}, "purpose result time")
        lines.append(f"{row['name']} ({row['agents']}): {row['description']} {expected}")
    return _matching(lines, find, own=True)


async def config(rest: Rest, preset: str = "", run: str = "", find: Find = "") -> str:
    """List the fields of the config of a preset or a run with their values: the paths that overrides accept."""
    if bool(preset) == bool(run):
        raise TroupeError("give either a preset or a run")
    trees = [await rest.call(run_path(run))] if run else (await rest.call("/api/v1/presets/"))["results"]
    tree: Any = next((row["config"] for row in trees if run or row["name"] == preset), None)
    if tree is None:
        raise TroupeError(f"there is no preset {preset!r}", remedy="the tool presets lists them")
    return _matching([f"{quoted(path)} = {quoted(value)}" for path, value in _flat(tree)], find, own=not run)


async def runs(rest: Rest, filter: str = "", limit: int = 10) -> str:
    """List runs, newest first. A filter is such as: state = running and eval/success > 0.8. Words match names, ids, tags."""
    listed = (await rest.call("/api/v1/runs/", filter=filter, limit=limit))["results"]
    return bounded((_line(rest, run) for run in listed), "use a filter") or "no runs"


async def launch(
    rest: Rest, preset: str, overrides: Changes = None, name: str = "", project: str = "", check: bool = False
) -> str:
    """Launch a run. With check, only validate the config and estimate its devices and duration."""
    body = {"preset": preset, "overrides": overrides or {}}
    if check:
        return brief(await rest.call("/api/v1/estimate/", body), "verdict wants volume duration unused")
    return _run(rest, await rest.call("/api/v1/runs/", body | VIA | {"name": name, "project": project}))


async def fork(
    rest: Rest,
    run: Run,
    overrides: Changes = None,
    checkpoint: str = "last",
    finding: int = 0,
    name: str = "",
) -> str:
    """Launch a run that continues from a checkpoint of another run (last, best or an iteration) with changes.

    Iterations continue to count: to train longer, set a larger run.iterations. With the id of a finding, the fork starts from the
    last checkpoint before it; without overrides it then has the edits of the finding. Before the first
    checkpoint the run is launched again from its start.
    """
    if finding and (name or checkpoint != "last"):
        raise TroupeError("the fork of a finding has its own checkpoint and name; omit both")
    path, body = (
        f"checkpoints/{quote(checkpoint, safe='')}",
        VIA | {"overrides": overrides or {}, "name": name},
    )
    if finding:
        path, body = f"findings/{finding}", {"overrides": overrides or None}
    return _run(rest, await rest.call(run_path(run, f"{path}/fork/"), body))


async def stop(rest: Rest, run: Run, now: bool = False) -> str:
    """Stop a run after its current iteration, with a checkpoint. With now, the work of that iteration is lost."""
    return _run(rest, await rest.call(run_path(run, "stop/"), {"now": now}))


async def watch(rest: Rest, run: Run, seconds: Seconds = 0) -> str:
    """Show state, last values and errors of a run. With seconds, wait so long, or until it has ended or has a new finding."""
    deadline = time.monotonic() + seconds
    first = seen = await rest.call(run_path(run))
    while (
        seen["state"] not in ENDED and seen["findings"] == first["findings"] and time.monotonic() < deadline
    ):
        await asyncio.sleep(POLL)
        seen = await rest.call(run_path(run))
    rows = (await rest.call(run_path(run, "series/")))["keys"]
    named = [row for row in rows if not row["key"].startswith(ASIDE)]
    values = {row["key"]: row["last_value"] for row in named[:MOST_VALUES]}
    lines = (await rest.call(run_path(run, "logs/"), level="error", limit=3))["results"]
    errors = [clipped(line["message"], 600) for line in lines]
    return _run(rest, seen, metrics=len(rows), last_values=values, errors=errors)


async def curves(rest: Rest, run: Run, metrics: Metrics = None, points: Points = 28) -> str:
    """Show curves as step:value, compressed so that minima and maxima remain."""
    answer = await rest.call(run_path(run, "series/"), keys=",".join(metrics or ()), points=points)
    lines = [
        f"{quoted(row['key'])} {number(row['last_value'])} (step {row['last_step']})"
        for row in answer["keys"]
    ]
    for key, columns in answer["series"].items():
        pairs = zip(columns["steps"], columns["values"], strict=True)
        lines.append(f"{quoted(key)}: " + " ".join(f"{step}:{number(value)}" for step, value in pairs))
    return bounded(lines, "name fewer metrics or points") or "no values"


async def transcripts(
    rest: Rest,
    run: Run,
    query: Query = "",
    words: Words = "",
    kind: Literal["", "train", "eval", "eval_sampled"] = "",
    limit: Annotated[int, Field(ge=1, le=10)] = 3,
    characters: Characters = 300,
) -> str:
    """Search the episodes of a run, newest first: for each turn the prompt, the executed answer, and the rewards of all candidates."""
    page = await rest.call(run_path(run, "episodes/"), query=query, q=words, kind=kind, limit=limit)
    lines: list[str] = []
    for row in page["results"]:
        played = await rest.call(f"/api/v1/episodes/{row['id']}/")
        lines += [brief(row, EPISODE), *_turns(played.get("turns") or [], characters)]
    return bounded(lines, "lower limit or characters") or "no episode matches"


async def findings(rest: Rest, run: Run) -> str:
    """List the problems that health rules detected in a run, open ones first, with figures, cause and remedy; then how near
    the other rules came to their thresholds (nearest: 1 is a finding).
    """
    rows = (await rest.call(run_path(run, "findings/")))["results"]
    rules = (await rest.call(run_path(run, "health/")))["results"]
    near = [
        brief(row, RULE) for row in rules if row["state"] in ("healthy", "not counted") and row["nearest"]
    ]
    lines = [brief(row, FINDING) for row in rows] or ["no findings"]
    return bounded([*lines, *near[:MOST_RULES]], "read the page")


async def compare(rest: Rest, runs: Several, metric: str = "", by: str = "run", at: str = "last") -> str:
    """Compare a metric of runs, and list the config fields in which they differ.

    by: run, family (all seeds of one config) or a config field. at: last, common (the last step that all have) or a step.
    """
    names = ",".join(runs)
    values = await rest.call("/api/v1/compare/", runs=names, by=by, key=metric, at=at)
    configs = await rest.call("/api/v1/compare/config/", runs=names, by=by)
    lines = [f"{quoted(values['label'])}, {number(values['step'] or 'last values')}"]
    lines += [brief(group, "name runs n mean sd interval last_step") for group in values["groups"]]
    labels = compact([row["label"] for row in configs["groups"]])
    lines.append(f"Different fields ({configs['same']} are equal), as: {labels}")
    for row in configs["fields"]:
        cells = " | ".join(str(cell["values"]) for cell in row["cells"])
        lines.append(f"{quoted(row['path'])}: {quoted(cells, 200)}")
    return bounded(lines, "compare fewer runs")


async def worth(rest: Rest, run: Run, episode: int = 0, checkpoint: str = "", job: str = "") -> str:
    """Measure what each message of an episode was worth, to find the message at fault: the episode's value after it, less that after
    other answers to its prompt.

    episode: id of a stored one; 0 plays four new ones of the checkpoint (default: last). job: one that was still running before.
    """
    if not job:
        subject = {"episode": episode} if episode else {}
        body = {"kind": "worth", "run": run, "checkpoint": checkpoint, "parameters": subject}
        job = (await rest.call("/api/v1/jobs/", body))["id"]
    deadline = time.monotonic() + LONGEST_WAIT
    current = await rest.call(f"/api/v1/jobs/{quote(job, safe='')}/")
    while current["state"] not in JOB_ENDED and time.monotonic() < deadline:
        await asyncio.sleep(POLL)
        current = await rest.call(f"/api/v1/jobs/{quote(job, safe='')}/")
    result = current["result"]
    lines = [
        brief(current, "id state progress message"),
        brief(result, "messages tokens left_out failed refused"),
    ]
    for role, total in result.get("worth", {}).items():
        half = "" if total["half_width"] is None else f" ± {number(total['half_width'])}"
        influence = "" if total["influence"] is None else f", influence {number(total['influence'])}"
        lines.append(f"{quoted(role)} earned {number(total['worth'])}{half}{influence}")
    lines += [_worth_line(message) for message in result.get("by_message", result.get("lowest", ()))]
    return bounded(lines, "read the page")


def _worth_line(message: Mapping[str, Any]) -> str:
    worth = f"{number(message['worth'])} ± {number(message['half_width'])}"
    others = ", ".join(
        f"{quoted(item['text'], 80)} {number(item['value'])}" for item in message["alternatives"]
    )
    name = f"episode {message['episode'] + 1} #{message['turn']} {quoted(message['role'])}"
    return (
        f"{name} worth {worth}: {quoted(message['text'], 200)}; others with their values: {others or 'none'}"
    )


VIA: dict[str, Any] = {"provenance": {"via": "MCP"}}


def _run(rest: Rest, run: Mapping[str, Any], **more: Any) -> str:
    return bounded([_line(rest, run, **more)], "read the page")


def _line(rest: Rest, run: Mapping[str, Any], **more: Any) -> str:
    more["headline"] = {key: value for key, value in run["headline"].items() if not isinstance(value, dict)}
    return brief(run, RUN, page=rest.page(run["links"]["page"]), **more)


def _matching(lines: list[str], find: str, *, own: bool = False) -> str:
    words = find.lower().split()
    matching = [line for line in lines if not words or any(word in line.lower() for word in words)]
    return (
        bounded(matching, "give words to find", own=own)
        or f"none of {len(lines)} lines has any of these words"
    )


def _flat(tree: Any, path: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(tree, dict) and tree:
        for name, value in tree.items():
            yield from _flat(value, f"{path}.{name}" if path else name)
    else:
        yield path, str(tree)


def _turns(turns: list[dict[str, Any]], characters: int) -> Iterator[str]:
    for index, turn in enumerate(turns, 1):
        candidates, executed = turn["candidates"], turn["executed"]
        answer = candidates[executed] if 0 <= executed < len(candidates) else {"text": ""}
        prompt = turn["messages"][-1].get("content", "") if turn["messages"] else ""
        role = quoted(turn["role"])
        yield f"#{index} {role} is asked: {quoted(str(prompt), characters)}"
        facts = brief(answer, "stop_reason", rewards=[candidate["reward"] for candidate in candidates])
        yield f"#{index} {role} answers: {quoted(answer['text'], characters)} {facts}"


READING = (presets, config, runs, watch, curves, transcripts, findings, compare)


def _tool(function: Any) -> Tool:
    reads = function in READING
    hints = protocol.ToolAnnotations(
        readOnlyHint=reads, destructiveHint=function is stop, openWorldHint=False
    )
    options: dict[str, Any] = {"description": cleandoc(function.__doc__), "annotations": hints}
    return Tool.from_function(function, context_kwarg="rest", structured_output=False, **options)


TOOLS = {function.__name__: _tool(function) for function in (*READING, launch, fork, stop, worth)}
"""All but those of READING need the scope launch."""
