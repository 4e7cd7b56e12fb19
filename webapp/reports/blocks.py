"""Blocks of a report, rendered from runs.

    ```chart
    runs: abcd2345, efgh6789
    filter: tag = baseline
    key: eval/success
    by: family
    band: ci
    ```

Names are the parameters of a comparison's URL; a complete URL is allowed too: /compare/?runs=...&key=... A report shows only
runs of its own project, so every reader of the report may read them.
"""

from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

from django.http import Http404, QueryDict
from django.urls import reverse

from training_core.errors import ConfigError
from webapp.accounts.models import Project
from webapp.agents.rewards import shaped_label
from webapp.common.tones import role_tones
from webapp.compare.choice import (
    MOST_GROUPED,
    MOST_RUNS,
    Choice,
    choice_demand,
    configs_of,
    meant,
    runs_chosen,
)
from webapp.compare.curves import curves_read
from webapp.compare.statistics import figures_of, runs_compare
from webapp.compare.table import configs_differ
from webapp.runs.models import ACTIVE_STATES, Run
from webapp.transcripts.models import Episode
from webapp.transcripts.selectors import episode_document

Block = tuple[str, dict[str, Any]]
MOST_TURNS = 40


def block_read(project: Project, name: str, source: str) -> Block:
    """Return (template, context), with an error message if the block cannot be rendered."""
    try:
        return BLOCKS[name](project, _facts(source))
    except ConfigError as error:
        return "reports/_wrong.html", {"name": name, "wrong": str(error)}
    except Http404 as error:
        return "reports/_wrong.html", {
            "name": name,
            "wrong": f"{error} A report shows runs of its own project.",
        }


def _facts(source: str) -> dict[str, str]:
    """Parse `name: value` lines, or one URL. Raises ConfigError."""
    lines = [line.strip() for line in source.splitlines() if line.strip()]
    if len(lines) == 1 and (lines[0].startswith("/") or lines[0].startswith("http")):
        return {
            name: value
            for name, value in QueryDict(urlsplit(lines[0]).query).items()
            if isinstance(value, str)
        }
    facts = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon or not name.strip().isidentifier():
            raise ConfigError({"block": f"{line[:60]!r} is not a line of a block: use name: value"})
        facts[name.strip()] = value.strip()
    return facts


def _compared(project: Project, facts: Mapping[str, str], most: int = MOST_RUNS) -> tuple[list[Run], Choice]:
    query = QueryDict(mutable=True)
    query.update(dict(facts))
    choice = choice_demand(query)
    mine = Run.objects.filter(project=project).select_related("project", "owner")
    runs = runs_chosen(mine, choice.run_ids, choice.filter, choice.by, most)
    return runs, meant(choice, runs)


def _chart(project: Project, facts: Mapping[str, str]) -> Block:
    runs, choice = _compared(project, facts, MOST_GROUPED)
    return "reports/_chart.html", {
        "key": choice.keys[0],
        "label": shaped_label(choice.keys[0], configs_of(runs)),
        "curves": curves_read(runs, choice, choice.keys[0]),
        "log": choice.log,
        "live": any(run.state in ACTIVE_STATES for run in runs),
        "address": _address(choice),
        "csv": f"{reverse('compare:csv')}?{choice.query(runs=','.join(run.pk for run in runs), filter='')}",
    }


def _figures(project: Project, facts: Mapping[str, str]) -> Block:
    runs, choice = _compared(project, facts, MOST_GROUPED)
    figures = figures_of(runs_compare(runs, choice, choice.keys[0]))
    return "reports/_figures.html", {"figures": figures, "address": _address(choice)}


def _config(project: Project, facts: Mapping[str, str]) -> Block:
    runs, choice = _compared(project, facts)
    difference = configs_differ(runs, choice.by, choice.all)
    return "reports/_config.html", {"difference": difference, "address": _address(choice, "compare:config")}


def _address(choice: Choice, page: str = "compare:page") -> str:
    return f"{reverse(page)}?{choice.query()}"


def _transcript(project: Project, facts: Mapping[str, str]) -> Block:
    """Render `episode: 123`, optionally limited with `turns: 2-5`."""
    number = facts.get("episode", "")
    if not number.isdecimal() or len(number) > 18:
        raise ConfigError({"episode": "give the number of an episode, as in the URL of its transcript"})
    matching = (
        Episode.objects.filter(pk=int(number), run__project=project)
        .select_related("run")
        .defer("words", "groups", "run__facts")
    )
    episode = matching.first()
    if episode is None:
        raise Http404(f"there is no episode {number}")
    turns = list(enumerate(episode_document(episode).get("turns", []), 1))
    first, last = _range(facts.get("turns", ""), len(turns))
    tones = role_tones(episode.run.config)
    shown = [_turn(number, turn, tones) for number, turn in turns if first <= number <= last][:MOST_TURNS]
    whole = len(shown) == len(turns)
    address = reverse("transcripts:detail", args=[episode.run_id, episode.pk])
    if shown and not whole:
        address += f"#turn-{shown[0]['number']}"
    cited = {"episode": episode, "turns": shown, "of": len(turns), "whole": whole, "address": address}
    return "reports/_transcript.html", cited


def _turn(number: int, turn: Mapping[str, Any], tones: Mapping[str, int]) -> dict[str, Any]:
    candidates = turn["candidates"]
    executed = candidates[turn["executed"]] if candidates else {}
    return {
        "number": number,
        "role": turn["role"],
        "tone": tones.get(turn["role"], 0),
        "saw": turn["messages"],
        "said": executed.get("text", ""),
        "reward": executed.get("reward"),
    }


def _range(text: str, count: int) -> tuple[int, int]:
    if not text:
        return 1, count
    first, _, last = text.partition("-")
    if not all(part.strip().isdecimal() and len(part) < 10 for part in (first, last or first)):
        raise ConfigError({"turns": f"{text[:40]!r} is not a range: use turns: 3 or turns: 2-5"})
    return int(first), int(last or first)


BLOCKS: dict[str, Callable[[Project, Mapping[str, str]], Block]] = {
    "chart": _chart,
    "figures": _figures,
    "config": _config,
    "transcript": _transcript,
}
