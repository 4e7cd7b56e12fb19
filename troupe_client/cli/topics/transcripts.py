"""Episodes: search, read, annotate, export."""

from typing import Annotated, Any

import typer
from rich.text import Text

from troupe_client.cli.arguments import AsJson, EvaluationKind, OutputFile, RunId
from troupe_client.cli.fetching import write_lines
from troupe_client.cli.output import (
    plain_table,
    print_json,
    print_line,
    print_table,
    visible,
)
from troupe_client.cli.show import number, turns_line
from troupe_client.server_api import find_server, run_path

app = typer.Typer()
EpisodeId = Annotated[
    int, typer.Argument(help="Number of the episode, as `troupe episode list` shows it.", min=1)
]
Turn = Annotated[int, typer.Argument(help="Number of the turn, from 1.", min=1)]
Filters = Annotated[
    list[str] | None,
    typer.Option(
        "--filter", "-f", metavar="NAME=VALUE",
        help="Select episodes, e.g. -f role=executor -f reward_max=0 -f iteration_min=40 -f truncated=true.",
    ),
]  # fmt: skip
Words = Annotated[
    str, typer.Option("--search", "-s", help='Words of the transcript: word, "a phrase", -without, prefix*.')
]
FACTS_ONLY = "Only the facts of this episode are stored, not its turns."


@app.command("list")
def transcripts(
    run_id: RunId,
    search: Words = "",
    filters: Filters = None,
    query: Annotated[
        str, typer.Option("--query", help='Query language, e.g. "planner.reward > 0 and turns >= 3".')
    ] = "",
    limit: Annotated[int, typer.Option(help="Maximum number of episodes.", min=1, max=500)] = 50,
    as_json: AsJson = False,
) -> None:
    """List the matching episodes of a run, newest first."""
    asked = {"q": search, "query": query, "limit": limit, **_parse_filters(filters)}
    episodes = find_server().call(run_path(run_id, "episodes/"), **asked)["results"]
    if as_json:
        return print_json(episodes)
    if not episodes:
        return print_line("No episode matches.")
    numeric = ("turns", "tokens", "return")
    table = plain_table("id", "episode", "play", "task", "outcome", *numeric, right=numeric, wrap=("task",))
    for row in episodes:
        table.add_row(
            str(row["id"]), *(Text(visible(str(row[name]))) for name in ("name", "kind", "title", "outcome")),
            str(row["turn_count"]), str(row["tokens"]), number(row["episode_return"]),
        )  # fmt: skip
    print_table(table, ["tokens", "turns", "play", "episode"])


@app.command("show")
def transcript(episode: EpisodeId, as_json: AsJson = False) -> None:
    """Read one episode, turn by turn."""
    facts = find_server().call(f"/api/v1/episodes/{episode}/")
    if as_json:
        return print_json(facts)
    episode_return = f"{facts.get('return_label', 'return')} {number(facts['episode_return'])}"
    print_line(f"{facts['name']}  {facts['title']}  {facts['outcome']}  {episode_return}", "bold")
    for position, turn in enumerate(facts.get("turns", []), 1):
        answer = turn["candidates"][turn["executed"]] if turn["candidates"] else None
        reward = f"  reward {number(answer['reward'])}" if answer else ""
        print_line(f"\n#{position} {turn['role']} ({turn['policy']}){reward}", "bold")
        for message in turn["messages"]:
            print_line(f"{message.get('role', '')}: {message.get('content', '')}", "dim")
        if answer and not answer.get("messages"):
            print_line(answer["text"])
        for message in answer.get("messages") or [] if answer else []:
            print_line(f"{message.get('role', '')}: {message.get('content', '')}")
            for call in filter(None, message.get("tool_calls", "").split("\n")):
                print_line(f"  calls {call}")
    if "turns" not in facts:
        print_line(FACTS_ONLY)


@app.command("tree")
def tree(episode: EpisodeId, as_json: AsJson = False) -> None:
    """Show the rewards of the candidates of every turn; the executed one is in brackets."""
    levels = _read_tree(episode)
    if as_json:
        return print_json(levels)
    for level in levels:
        rewards = [number(candidate["reward"]) for candidate in level["candidates"]]
        marked = [f"[{text}]" if index == level["executed"] else text for index, text in enumerate(rewards)]
        equal = "  equal rewards: no gradient" if level["zero_variance"] else ""
        print_line(f"#{level['number']} {level['role']}  {'  '.join(marked)}{equal}")
    if not levels:
        print_line(FACTS_ONLY)


def _read_tree(episode: int) -> list[dict[str, Any]]:
    """Read all turns, page by page."""
    server, count = find_server(), 1
    turns: list[dict[str, Any]] = []
    while len(turns) < count:
        page = server.call(f"/api/v1/episodes/{episode}/tree/", **{"from": len(turns) + 1})
        turns, count = turns + page["turns"], page["count"]
    return turns


@app.command("group")
def group(episode: EpisodeId, turn: Turn, as_json: AsJson = False) -> None:
    """Show the candidates of one turn: reward, advantage, text × number of equal ones; * marks the executed one."""
    group = find_server().call(f"/api/v1/episodes/{episode}/groups/{turn}/")
    if as_json:
        return print_json(group)
    head = f"#{group['number']} {group['role']} ({group['policy']})"
    print_line(f"{head}  mean reward {number(group['mean'])}  std {number(group['std'])}", "bold")
    for message in group["messages"]:
        print_line(f"{message.get('role', '')}: {message.get('content', '')}", "dim")
    for index, candidate in enumerate(group["candidates"]):
        first = candidate["equals"]
        equal = [other for other, answer in enumerate(group["candidates"]) if answer["equals"] == first]
        if index != (group["executed"] if group["executed"] in equal else equal[0]):
            continue
        mark = "*" if index == group["executed"] else " "
        figures = f"{number(candidate['reward']):>7} {number(candidate['advantage']):>7}"
        times = f" × {len(equal)}" if len(equal) > 1 else ""
        print_line(f"{mark} {figures}  {candidate['text']}{times}")


@app.command("tokens")
def tokens(
    episode: EpisodeId,
    turn: Turn,
    candidate: Annotated[
        int | None,
        typer.Option(help="Number of the candidate, from 1; default: the executed one.", min=1),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show the tokens of one answer: id, log-probability, and the values of the update."""
    answer = _read_tokens(episode, turn, candidate)
    if as_json:
        return print_json(answer)
    advantage = f"advantage {number(answer['advantage'])}"
    print_line(f"#{turn} candidate {answer['candidate'] + 1}  {answer['count']} tokens  {advantage}", "bold")
    columns = [name for name in _PER_TOKEN if name in answer]
    headings = [_PER_TOKEN[name] for name in columns]
    table = plain_table("token", *headings, right=headings)
    for token, *values in zip(answer.get("tokens", []), *(answer[name] for name in columns), strict=False):
        figures = (str(value) if isinstance(value, int) else number(value) for value in values)
        table.add_row(Text(visible(repr(token))), *figures)
    print_table(table)


_PER_TOKEN = {
    "token_ids": "id", "logprobs": "logprob", "ratios": "ratio", "entropies": "entropy", "training_logprobs": "learner",
    "mismatch": "mismatch", "masks": "mask", "versions": "version",
}  # fmt: skip


def _read_tokens(episode: int, turn: int, candidate: int | None) -> dict[str, Any]:
    """Read all tokens of an answer, page by page."""
    server, path = find_server(), f"/api/v1/episodes/{episode}/turns/{turn}/tokens/"
    answer: dict[str, Any] = server.call(path, candidate=candidate)
    while answer.get("tokens") and len(answer["tokens"]) < answer["count"]:
        page = server.call(path, candidate=candidate, **{"from": len(answer["tokens"])})
        if not page.get("tokens"):
            break
        for name in ("tokens", *_PER_TOKEN):
            answer.get(name, []).extend(page.get(name, []))
    return answer


@app.command("export")
def export_transcripts(
    run_id: RunId, search: Words = "", filters: Filters = None, output: OutputFile = None
) -> None:
    """Write the matching episodes as JSON Lines: facts, turns, tokens, values of updates, notes."""
    query = _parse_filters(filters)
    count = write_lines(find_server().lines(run_path(run_id, "episodes/export/"), q=search, **query), output)
    if output is not None:
        print_line(f"{count} episodes in {output}")


@app.command("probes")
def probes(
    run_id: RunId,
    kind: EvaluationKind = "eval",
    task: Annotated[str, typer.Option(help="Only this task.")] = "",
    as_json: AsJson = False,
) -> None:
    """Show how the same tasks were played at every evaluation."""
    strips = find_server().call(run_path(run_id, "probes/"), kind=kind, task=task)["results"]
    if as_json:
        return print_json(strips)
    for strip in strips:
        print_line(f"{strip['task']}  {strip['title']}", "bold")
        for play in strip["plays"]:
            turns = turns_line(play["said"])
            print_line(f"  {play['id']}  iteration {play['iteration']}  {play['outcome']}  {turns}")
    if not strips:
        print_line("No evaluation is stored yet.")


@app.command("diff")
def diff(
    episode: EpisodeId,
    other: Annotated[int, typer.Argument(help="Number of the later episode.", min=1)],
    as_json: AsJson = False,
) -> None:
    """Compare the texts of two episodes turn by turn: [-only in the first-] {+only in the second+}."""
    comparison = find_server().call(f"/api/v1/episodes/{episode}/diff/{other}/")
    if as_json:
        return print_json(comparison)
    marks = {"equal": ("", ""), "delete": ("[-", "-]"), "insert": ("{+", "+}")}
    for turn in comparison["turns"]:
        text = "".join(marks[part["op"]][0] + part["text"] + marks[part["op"]][1] for part in turn["said"])
        print_line(f"#{turn['number']} {turn['role']}: {text}", "dim" if turn["same"] else "")


def _parse_filters(filters: list[str] | None) -> dict[str, str]:
    """Return NAME=VALUE words as a dict. Raises typer.BadParameter."""
    values = {}
    for word in filters or []:
        name, is_pair, value = word.partition("=")
        if not is_pair or not name.isidentifier() or name in ("q", "limit", "path", "body"):
            raise typer.BadParameter(f"{word!r}: give NAME=VALUE, e.g. outcome=error")
        values[name] = value
    return values
