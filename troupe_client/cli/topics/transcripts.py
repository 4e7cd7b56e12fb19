"""Episodes: find, read, label, export."""

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from troupe_client.cli.fetching import write_lines
from troupe_client.cli.show import console, number, turns_line, visible
from troupe_client.server_api import find_server, run_path

app = typer.Typer()
RunId = Annotated[str, typer.Argument(help="Id of the run, as `troupe runs` shows it.")]
EpisodeId = Annotated[
    int, typer.Argument(help="Number of the episode, as `troupe transcripts` shows it.", min=1)
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for scripts.")]
Filters = Annotated[
    list[str] | None,
    typer.Option(
        "--filter", "-f", metavar="NAME=VALUE",
        help="Narrow down, e.g. -f role=executor -f reward_max=0 -f iteration_min=40 -f truncated=true.",
    ),
]  # fmt: skip
Words = Annotated[
    str, typer.Option("--search", "-s", help='Words seen or said: word, "a phrase", -without, begin*.')
]


@app.command()
def transcripts(
    run_id: RunId,
    search: Words = "",
    filters: Filters = None,
    limit: Annotated[int, typer.Option(help="At most so many, newest first.", min=1, max=500)] = 50,
    as_json: AsJson = False,
) -> None:
    """List a run's episodes that fit, newest first."""
    found = find_server().call(run_path(run_id, "episodes/"), q=search, limit=limit, **_given(filters))[
        "results"
    ]
    if as_json:
        return _print_json(found)
    if not found:
        return console.print("No episode fits.")
    table = Table(box=None, pad_edge=False, header_style="dim")
    for heading in ("id", "episode", "play", "task", "outcome"):
        table.add_column(heading)
    for heading in ("turns", "tokens", "return"):
        table.add_column(heading, justify="right")
    for each in found:
        table.add_row(
            str(each["id"]), *(Text(visible(str(each[name]))) for name in ("name", "kind", "title", "outcome")),
            str(each["turn_count"]), str(each["tokens"]), number(each["episode_return"]),
        )  # fmt: skip
    console.print(table)


@app.command()
def transcript(episode: EpisodeId, as_json: AsJson = False) -> None:
    """Read one episode, turn by turn."""
    found = find_server().call(f"/api/v1/episodes/{episode}/")
    if as_json:
        return _print_json(found)
    _line(
        f"{found['name']}  {found['title']}  {found['outcome']}  return {number(found['episode_return'])}",
        "bold",
    )
    for place, turn in enumerate(found.get("turns", []), 1):
        said = turn["candidates"][turn["executed"]] if turn["candidates"] else None
        reward = f"  reward {number(said['reward'])}" if said else ""
        _line(f"\n#{place} {turn['role']} ({turn['policy']}){reward}", "bold")
        for message in turn["messages"]:
            _line(f"{message.get('role', '')}: {message.get('content', '')}", "dim")
        if said:
            _line(said["text"])
    if "turns" not in found:
        console.print("Only the facts of this episode are kept.")


@app.command()
def tree(episode: EpisodeId, as_json: AsJson = False) -> None:
    """Show the candidates of every turn by their reward; the one in brackets was carried on."""
    found = _tree_read(episode)
    if as_json:
        return _print_json(found)
    for level in found:
        rewards = [number(each["reward"]) for each in level["candidates"]]
        marked = [f"[{text}]" if at == level["executed"] else text for at, text in enumerate(rewards)]
        flat = "  equal: teaches nothing" if level["zero_variance"] else ""
        _line(f"#{level['number']} {level['role']}  {'  '.join(marked)}{flat}")
    if not found:
        console.print("Only the facts of this episode are kept.")


def _tree_read(episode: int) -> list[dict[str, Any]]:
    """All turns, however many answers it takes."""
    server, count = find_server(), 1
    turns: list[dict[str, Any]] = []
    while len(turns) < count:
        page = server.call(f"/api/v1/episodes/{episode}/tree/", **{"from": len(turns) + 1})
        turns, count = turns + page["turns"], page["count"]
    return turns


@app.command()
def group(
    episode: EpisodeId,
    turn: Annotated[int, typer.Argument(help="Place of the answer, from 1.", min=1)],
    as_json: AsJson = False,
) -> None:
    """Show the candidates of one turn: reward, advantage, what was said; * was carried on."""
    found = find_server().call(f"/api/v1/episodes/{episode}/groups/{turn}/")
    if as_json:
        return _print_json(found)
    head = f"#{found['number']} {found['role']} ({found['policy']})"
    _line(f"{head}  mean reward {number(found['mean'])}  std {number(found['std'])}", "bold")
    for message in found["messages"]:
        _line(f"{message.get('role', '')}: {message.get('content', '')}", "dim")
    for place, each in enumerate(found["candidates"]):
        mark = "*" if place == found["executed"] else " "
        _line(f"{mark} {number(each['reward']):>7} {number(each['advantage']):>7}  {each['text']}")


@app.command()
def tokens(
    episode: EpisodeId,
    turn: Annotated[int, typer.Argument(help="Place of the answer, from 1.", min=1)],
    candidate: Annotated[
        int | None,
        typer.Option(help="Place among its siblings, from 1; without it, the one carried on.", min=1),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show the tokens of one answer: id, log-probability, and what the update said of each."""
    found = _tokens_read(episode, turn, candidate)
    if as_json:
        return _print_json(found)
    _line(
        f"#{turn} candidate {found['candidate'] + 1}  {found['count']} tokens  advantage {number(found['advantage'])}",
        "bold",
    )
    table = Table(box=None, pad_edge=False, header_style="dim")
    known = [name for name in _PER_TOKEN if name in found]
    for name in ("token", *(_PER_TOKEN[name] for name in known)):
        table.add_column(name, justify="left" if name == "token" else "right")
    for token, *facts in zip(found.get("tokens", []), *(found[name] for name in known), strict=False):
        figures = (str(each) if isinstance(each, int) else number(each) for each in facts)
        table.add_row(Text(visible(repr(token))), *figures)
    console.print(table)


_PER_TOKEN = {
    "token_ids": "id", "logprobs": "logprob", "ratios": "ratio", "entropies": "entropy", "training_logprobs": "learner",
    "mismatch": "mismatch", "masks": "mask", "versions": "version",
}  # fmt: skip


def _tokens_read(episode: int, turn: int, candidate: int | None) -> dict[str, Any]:
    """All tokens, however many answers it takes."""
    server, path = find_server(), f"/api/v1/episodes/{episode}/turns/{turn}/tokens/"
    found: dict[str, Any] = server.call(path, candidate=candidate)
    while found.get("tokens") and len(found["tokens"]) < found["count"]:
        more = server.call(path, candidate=candidate, **{"from": len(found["tokens"])})
        if not more.get("tokens"):
            break
        for name in ("tokens", *_PER_TOKEN):
            found.get(name, []).extend(more.get(name, []))
    return found


@app.command()
def export_transcripts(
    run_id: RunId,
    search: Words = "",
    filters: Filters = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="A file; without it, standard output.", dir_okay=False),
    ] = None,
) -> None:
    """Write the episodes that fit as JSON Lines: facts, turns, tokens, what updates learnt, notes."""
    lines = find_server().lines(run_path(run_id, "episodes/export/"), q=search, **_given(filters))
    count = write_lines(lines, output)
    if output is not None:
        _line(f"{count} episodes in {output}")


@app.command()
def note(
    episode: EpisodeId,
    text: Annotated[str, typer.Argument(help="What to say of it.")] = "",
    label: Annotated[str, typer.Option("--label", "-l", help="A word to find it by.")] = "",
    turn: Annotated[
        int | None, typer.Option(help="Place of the answer, from 1; without it, the whole episode.", min=1)
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Label or note an episode, or one answer in it."""
    body = {"text": text, "label": label} | ({"turn": turn} if turn else {})
    made = find_server().call(f"/api/v1/episodes/{episode}/notes/", body)
    _print_json(made) if as_json else _show_note(made)


@app.command()
def notes(episode: EpisodeId, as_json: AsJson = False) -> None:
    """List the labels and notes of an episode."""
    found = find_server().call(f"/api/v1/episodes/{episode}/notes/")["results"]
    if as_json:
        return _print_json(found)
    for each in found:
        _show_note(each)
    if not found:
        console.print("No notes yet: troupe note EPISODE TEXT --label LABEL")


@app.command()
def note_remove(
    episode: EpisodeId,
    number: Annotated[
        int, typer.Argument(metavar="NOTE", help="Number of the note, as `troupe notes` shows it.", min=1)
    ],
    as_json: AsJson = False,
) -> None:
    """Take a note away."""
    gone = find_server().call(f"/api/v1/episodes/{episode}/notes/{number}/remove/", {})
    _print_json(gone) if as_json else _line(f"{gone['id']}  removed")


@app.command()
def probes(
    run_id: RunId,
    kind: Annotated[str, typer.Option(help="eval (greedy) or eval_sampled.")] = "eval",
    task: Annotated[str, typer.Option(help="Only this task.")] = "",
    as_json: AsJson = False,
) -> None:
    """Show how the same tasks were played at every evaluation."""
    found = find_server().call(run_path(run_id, "probes/"), kind=kind, task=task)["results"]
    if as_json:
        return _print_json(found)
    for strip in found:
        _line(f"{strip['task']}  {strip['title']}", "bold")
        for play in strip["plays"]:
            said = turns_line(play["said"])
            _line(f"  {play['id']}  iteration {play['iteration']}  {play['outcome']}  {said}")
    if not found:
        console.print("No evaluation has been kept yet.")


@app.command()
def diff(
    episode: EpisodeId,
    other: Annotated[int, typer.Argument(help="Number of the later one.", min=1)],
    as_json: AsJson = False,
) -> None:
    """Say what two episodes say differently, turn by turn: [-only the first-] {+only the second+}."""
    found = find_server().call(f"/api/v1/episodes/{episode}/diff/{other}/")
    if as_json:
        return _print_json(found)
    marks = {"equal": ("", ""), "delete": ("[-", "-]"), "insert": ("{+", "+}")}
    for turn in found["turns"]:
        text = "".join(marks[part["op"]][0] + part["text"] + marks[part["op"]][1] for part in turn["said"])
        _line(f"#{turn['number']} {turn['role']}: {text}", "dim" if turn["same"] else "")


def _show_note(note: dict[str, Any]) -> None:
    where = f"#{note['turn']}" if note["turn"] else "episode"
    _line(f"{note['id']}  {where}  {note['author']}  {note['label']}  {note['text']}".rstrip())


def _given(filters: list[str] | None) -> dict[str, str]:
    """NAME=VALUE words by name. Raises typer.BadParameter."""
    given = {}
    for each in filters or []:
        name, is_pair, value = each.partition("=")
        if not is_pair or not name.isidentifier() or name in ("q", "limit", "path", "body"):
            raise typer.BadParameter(f"{each!r}: give NAME=VALUE, e.g. outcome=failed")
        given[name] = value
    return given


def _line(text: str, style: str = "") -> None:
    console.print(Text(visible(text), style=style), soft_wrap=True)


def _print_json(value: Any) -> None:
    sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=False) + "\n")
