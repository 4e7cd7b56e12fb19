"""The order of metrics by their names: the outcome of training first, without counters and clocks."""

import re
from collections.abc import Iterable

WORDS = tuple(
    map(
        re.compile,
        (
            r"(mean_)?(episode_|episodic_|ep_)?(reward|return|rew)s?(_mean)?",
            r"(mean_)?success(_rate)?|win_rate|solved|pass(@|_at_|_)\d+",
            r"(total_)?loss|nll|cross_entropy",
            r"(mean_)?acc(uracy)?|f1|score|exact_match|em|bleu|auc|map|m?iou|top_?\d",
            r"perplexity|ppl|bits_per_byte",
            r"rewards?/(?!.*std$).+",
            r"kl|kl_divergence|approx_kl|entropy",
            r"(mean_)?(episode_|episodic_|ep_)?len(gth)?(_mean)?",
            r".*_loss|loss/.*",
            r"rewards?_std|explained_variance|clip_?frac(tion)?|clip_ratio(/region_mean)?",
            r"grad(ient)?_norm",
            r"(lr|learning_rate)([-_/].+)?",
        ),
    )
)
"""Names of the usual metrics, the most important first. A name is compared without its split."""
SPLITS = ("train", "training", "eval", "evaluation", "val", "valid", "validation", "test", "dev")
_SPLIT = re.compile(rf"^({'|'.join(SPLITS)})[_/](?=.)")
_REPEATED = re.compile(rf"^({'|'.join(SPLITS)})/\1_")
_ASIDE = ("system/", "time/", "progress/", "compute/")
"""Metrics that describe the machine and the progress."""
_COUNTERS = re.compile(
    r"(.*[/_])?(epoch|step|iteration|(global|env|total)_steps|total_timesteps|n_updates|num_tokens|total_flos"
    r"|(step|preparation|wall|elapsed)_time|runtime|fps|sps|SPS|per_sec(ond)?)"
)
"""Counters and clocks."""


def by_importance(keys: Iterable[str]) -> list[str]:
    """Return the metrics whose names are WORDS, the most important first; if there are none, those of `without_counters`.

    keys: in the order in which the run has reported them.
    """
    listed = without_counters(keys)
    ranks = {key: _rank(key) for key in listed}
    named = [key for key in listed if ranks[key] < len(WORDS)]
    return sorted(named, key=lambda key: ranks[key]) or listed


def without_counters(keys: Iterable[str]) -> list[str]:
    """Return the metrics without those of the machine, counters, clocks, and means over another one (train/train_loss of train/loss).

    A run that reports nothing else keeps its counters and clocks.
    """
    listed = [key for key in keys if not key.startswith(_ASIDE)]
    known = {key for key in listed if not _REPEATED.match(key)}
    plain = [
        key
        for key in listed
        if not _COUNTERS.fullmatch(key) and (key in known or _without_repetition(key) not in known)
    ]
    return plain or listed


def without_split(key: str) -> str:
    """Return "loss" for train/loss, eval_loss and loss."""
    return _SPLIT.sub("", key)


def _without_repetition(key: str) -> str:
    """Return train/loss for train/train_loss."""
    return _REPEATED.sub(r"\1/", key)


def _rank(key: str) -> int:
    name = without_split(key)
    forms = (name, name.rpartition("/")[2])
    ranks = (index for index, word in enumerate(WORDS) if any(word.fullmatch(form) for form in forms))
    return next(ranks, len(WORDS))
