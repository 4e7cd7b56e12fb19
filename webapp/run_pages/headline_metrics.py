"""Headline metrics: those that the overview of a run shows as tiles and first charts, by its own choice or by their names."""

import re
from collections.abc import Iterable, Sequence

from django.utils.text import slugify

from webapp.agents.pages import TileFigure, TileSpec
from webapp.run_pages.charts import GREEDY, SAMPLED, ChartLine, Panel, Tone

MOST_TILES = 8
MOST_CHARTS = 9
WORDS = tuple(
    map(
        re.compile,
        (
            r"(total_)?loss|nll|cross_entropy",
            r"(mean_|episode_|ep_)?(reward|return)s?(_mean)?|ep_rew_mean",
            r"(mean_)?success(_rate)?|win_rate|solved|pass(@|_at_|_)\d+",
            r"(mean_)?acc(uracy)?|f1|score|exact_match|em|bleu|auc|map|m?iou|top_?\d",
            r"perplexity|ppl|bits_per_byte",
            r"rewards?/(?!.*std$).+",
            r"lr|learning_rate",
            r"kl|kl_divergence|approx_kl|entropy",
            r"grad(ient)?_norm",
            r".*_loss|loss/.*",
            r"(mean_|ep_|episode_)?len(gth)?(_mean)?",
        ),
    )
)
"""Names of metrics that say most about training, the most important first. A name is compared without its split."""
SPLITS = ("train", "training", "eval", "evaluation", "val", "valid", "validation", "test", "dev")
_SPLIT = re.compile(rf"({'|'.join(SPLITS)})[_/](?=.)")
_HELD_OUT = re.compile(rf"({'|'.join(SPLITS[2:])})[_/]")
_ASIDE = ("system/", "time/", "progress/", "compute/")
"""Metrics that describe the machine and the progress."""
_TONES: tuple[Tone, ...] = (GREEDY, SAMPLED, 1, 2, 3, 5, 6)


def by_importance(keys: Iterable[str]) -> list[str]:
    """Return the metrics whose names are WORDS, the most important first; if there are none, all, in their order.

    keys: in the order in which the run has reported them.
    """
    listed = [key for key in keys if not key.startswith(_ASIDE)]
    ranks = {key: _rank(key) for key in listed}
    named = [key for key in listed if ranks[key] < len(WORDS)]
    return sorted(named, key=lambda key: ranks[key]) or listed


def named_tiles(keys: Iterable[str]) -> list[TileSpec]:
    """Return a tile for each metric, with its change since the start; whether more is better is not known."""
    return [TileSpec(key, "", (TileFigure(key, since="start", more_is_better=False),)) for key in keys]


def named_panels(keys: Sequence[str]) -> list[Panel]:
    """Return a chart for each metric, the most important first; the splits of one metric (loss, eval/loss) share a chart."""
    groups: dict[str, list[str]] = {}
    first = by_importance(keys)
    rest = [key for key in keys if not key.startswith(_ASIDE)]
    for key in dict.fromkeys([*first, *rest]):
        groups.setdefault(_without_split(key), []).append(key)
    return [_panel(name, members) for name, members in groups.items()]


def _panel(name: str, keys: list[str]) -> Panel:
    keys = sorted(keys, key=lambda key: bool(_HELD_OUT.match(key)))
    lines = [ChartLine(key, key, _TONES[index % len(_TONES)]) for index, key in enumerate(keys)]
    title = name if len(keys) > 1 else keys[0]
    return Panel(slugify(f"headline-{title.replace('/', '-')}"), title, "", lines)


def _rank(key: str) -> int:
    name = _without_split(key)
    forms = (name, name.rpartition("/")[2])
    ranks = (index for index, word in enumerate(WORDS) if any(word.fullmatch(form) for form in forms))
    return next(ranks, len(WORDS))


def _without_split(key: str) -> str:
    """Return "loss" for train/loss, eval_loss and loss."""
    return _SPLIT.sub("", key, count=1) if _SPLIT.match(key) else key
