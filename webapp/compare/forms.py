"""What the address of a comparison may ask for; reports and the API use the same words."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any
from urllib.parse import urlencode

from django import forms
from django.http import QueryDict

from training_core.config.kinds import has_networks
from training_core.errors import ConfigError
from webapp.runs.models import Run

MOST_KEYS = 6
AXES = [
    ("step", "step"),
    ("time", "time"),
    ("tokens", "tokens"),
    ("episodes", "episodes"),
    ("env_steps", "environment steps"),
]
BANDS = [
    ("sd", "standard deviation"),
    ("ci", "95% bootstrap interval"),
    ("minmax", "least to greatest"),
    ("runs", "every run's line"),
    ("none", "nothing"),
]

KINDS = [("eval", "greedy evaluation"), ("eval_sampled", "sampled evaluation")]


def names_of(text: str) -> list[str]:
    """Comma-separated words, each once."""
    return list(dict.fromkeys(word.strip() for word in text.split(",") if word.strip()))


@dataclass(frozen=True)
class Choice:
    """A set of runs, and how they are looked at. Defaults are left out of addresses."""

    runs: str = ""
    filter: str = ""
    key: str = "eval/success"
    by: str = "family"
    x: str = "step"
    band: str = "sd"
    smooth: float = 0.0
    log: bool = False
    at: str = "last"
    all: bool = False
    axes: str = ""
    brush: str = ""
    kind: str = "eval"
    task: str = ""

    @property
    def run_ids(self) -> list[str]:
        """The runs that are named."""
        return names_of(self.runs)

    @property
    def keys(self) -> list[str]:
        """The metrics, the first MOST_KEYS of them."""
        return names_of(self.key)[:MOST_KEYS] or [Choice.key]

    def said(self) -> dict[str, Any]:
        """What is not as usual, as an address says it."""
        facts, usual = asdict(self), asdict(Choice())
        return {
            name: "1" if value is True else value for name, value in facts.items() if value != usual[name]
        }

    def query(self, **changes: Any) -> str:
        """The query of an address that says the same, with some fields changed."""
        return urlencode(replace(self, **changes).said(), safe=",/")


class ChoiceForm(forms.Form):
    """Reads a Choice."""

    runs = forms.CharField(required=False, max_length=8000, help_text="comma-separated ids")
    filter = forms.CharField(required=False, max_length=2000, help_text="and those that fit this filter")
    key = forms.CharField(
        required=False,
        max_length=1000,
        help_text="the metric, default eval/success (small networks: eval/return); of several the first",
    )
    by = forms.CharField(
        required=False, max_length=200, help_text="family (all but the seed), run, or a dotted config field"
    )
    x = forms.ChoiceField(
        required=False, choices=AXES, help_text="step, time (seconds), tokens, episodes or env_steps"
    )
    band = forms.ChoiceField(required=False, choices=BANDS, help_text="sd, ci, minmax, runs or none")
    smooth = forms.FloatField(
        required=False, min_value=0, max_value=0.99, help_text="weight of what came before, 0 to 0.99"
    )
    log = forms.BooleanField(required=False, help_text="a logarithmic axis of values")
    at = forms.RegexField(
        r"^(last|common|\d{1,17})$",
        required=False,
        help_text="which value counts: last, common (at the last step that all have reached), or a step",
    )
    all = forms.BooleanField(required=False, help_text="fields that are the same everywhere too")
    axes = forms.CharField(
        required=False, max_length=2000, help_text="comma-separated config fields and metrics"
    )
    brush = forms.CharField(
        required=False, max_length=2000, help_text="kept ranges of axes: name:least:most, or name:value"
    )
    kind = forms.ChoiceField(
        required=False, choices=KINDS, help_text="eval (greedy, the default) or eval_sampled"
    )
    task = forms.CharField(required=False, max_length=200, help_text="only this task")

    def choice(self) -> Choice:
        """What was given and makes sense; the defaults for the rest."""
        self.is_valid()
        given = {name: value for name, value in self.cleaned_data.items() if value not in ("", None)}
        return Choice(**given)


def meant(choice: Choice, runs: Sequence[Run]) -> Choice:
    """Small networks know no success: where nothing else was asked of them, their return is compared."""
    if choice.key == Choice.key and runs and all(has_networks(run.config) for run in runs):
        return replace(choice, key="eval/return")
    return choice


def choice_read(query: QueryDict) -> Choice:
    """What a page's address says; what is not understood is left out. `runs` and `key` may be repeated."""
    return ChoiceForm(_joined(query)).choice()


def choice_demand(query: QueryDict) -> Choice:
    """The same for the API. Raises ConfigError for what is not understood."""
    form = ChoiceForm(_joined(query))
    if not form.is_valid():
        raise ConfigError({name: " ".join(map(str, said)) for name, said in form.errors.items()})
    return form.choice()


def _joined(query: QueryDict) -> dict[str, str]:
    said = {name: str(value) for name, value in query.dict().items()}
    return said | {name: ",".join(query.getlist(name)) for name in ("runs", "key") if name in query}
