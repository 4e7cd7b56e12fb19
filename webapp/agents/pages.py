"""What pages and API answers need to know of one kind of agents. Pages ask this object, and do not test the kind."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from workers.storage.checkpoint_files import Member


@dataclass(frozen=True)
class TileFigure:
    """The last value of one series in a tile."""

    metric: str
    """With {role} or {policy}: one figure for each."""
    under: str = ""
    """Caption below it."""
    since: str = ""
    """Reference of its change; empty: the change is not shown."""
    more_is_better: bool = True
    """Whether a change upwards is good; matters only with `since`."""


@dataclass(frozen=True)
class TileSpec:
    """One tile of the overview."""

    label: str
    """{side} becomes " of ROLE" if the return is that of one of several roles."""
    unit: str
    figures: tuple[TileFigure, ...]


@dataclass(frozen=True)
class AgentPages:
    """Words, charts and rules of one kind of agents."""

    step: str
    """One action of an agent."""
    answer: str
    """What an agent returns in a step."""
    tasks: str
    """What equal episodes have in common: in a match, and over training."""
    probes: str
    untrained: str
    """What plays before the first update."""
    episodes: str
    """What pages call the stored episodes."""
    query: str
    """Example of a query of episodes."""
    stored: str
    """Which episodes are stored with their steps."""
    no_batches: str
    """Why there are no batches of episodes; empty: there are."""
    override: str
    """Example of a setting of an evaluation."""
    budget: str
    """Size of an iteration; {} is the number."""
    tokens: bool
    """Whether agents read and write text: pages show tokens."""
    matched_by_role: bool
    """Whether a match reports the reward of each role; otherwise success and return of the team."""
    headline: str
    """Default metric of comparisons."""
    units: dict[str, str]
    """Units of metrics, in addition to the common ones and in place of them."""
    tiles: tuple[TileSpec, ...]
    refused_jobs: Mapping[str, str]
    """Kinds of short jobs that are impossible, with the reason and the remedy."""
    refused_parameters: Mapping[str, str]
    """Parameters of short jobs that are impossible, with the reason and the remedy."""
    archive: str
    """What a downloaded checkpoint contains."""
    weights: str
    """What weights are stored in."""
    archive_files: Callable[[Path, Iterable[str]], list[Member]]
    """(checkpoint folder, policies) -> the files of an archive."""
    card_facts: Mapping[str, str]
    """Fields of the front matter of a model card."""
    card_source: tuple[str, str]
    """What a policy was trained from: the name on a model card, and the field of the policy."""
