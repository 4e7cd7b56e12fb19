"""Query parameters of a comparison's URL; reports and the API use the same names."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any
from urllib.parse import urlencode

from django import forms
from django.http import QueryDict

from training_core.errors import ConfigError
from webapp.agents.registry import agent_pages
from webapp.compare.selection import configs_of
from webapp.metrics.expressions import expression_read
from webapp.run_table.headlines import metric_compared
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
    ("minmax", "minimum to maximum"),
    ("runs", "every run's line"),
    ("none", "nothing"),
]
TOPS = [("highest", "highest"), ("lowest", "lowest")]
KINDS = [("eval", "greedy evaluation"), ("eval_sampled", "sampled evaluation")]


def names_of(text: str) -> list[str]:
    """Return the comma-separated words without duplicates."""
    return list(dict.fromkeys(word.strip() for word in text.split(",") if word.strip()))


@dataclass(frozen=True)
class Choice:
    """A selection of runs and the options of their comparison. Defaults are omitted from URLs."""

    runs: str = ""
    filter: str = ""
    key: str = "eval/success"
    by: str = "family"
    x: str = "step"
    band: str = "sd"
    smooth: float = 0.0
    log: bool = False
    at: str = "last"
    top: str = "highest"
    all: bool = False
    axes: str = ""
    brush: str = ""
    kind: str = "eval"
    task: str = ""

    @property
    def run_ids(self) -> list[str]:
        """Return the ids of the selected runs."""
        return names_of(self.runs)

    @property
    def keys(self) -> list[str]:
        """Return the first MOST_KEYS selected metrics."""
        return names_of(self.key)[:MOST_KEYS] or [Choice.key]

    def said(self) -> dict[str, Any]:
        """Return the options that differ from their defaults, as query parameters."""
        facts, usual = asdict(self), asdict(Choice())
        return {
            name: "1" if value is True else value for name, value in facts.items() if value != usual[name]
        }

    def query(self, **changes: Any) -> str:
        """Return the query string of these options, with some fields changed."""
        return urlencode(replace(self, **changes).said(), safe=",/")


class ChoiceForm(forms.Form):
    """Reads a Choice."""

    runs = forms.CharField(required=False, max_length=8000, help_text="comma-separated ids")
    filter = forms.CharField(required=False, max_length=2000, help_text="and runs that match this filter")
    key = forms.CharField(
        required=False,
        max_length=1000,
        help_text="the metric or expression of metrics, default eval/success (small networks: eval/return; custom programs: "
        "a headline metric); of several, the first",
    )
    by = forms.CharField(
        required=False,
        max_length=200,
        help_text="family (everything except the seed), run, or a dotted config field",
    )
    x = forms.CharField(
        required=False,
        max_length=200,
        help_text="step, time (seconds), tokens, episodes, env_steps, or a metric or expression of metrics",
    )
    band = forms.ChoiceField(required=False, choices=BANDS, help_text="sd, ci, minmax, runs or none")
    smooth = forms.FloatField(
        required=False, min_value=0, max_value=0.99, help_text="weight of previous values, 0 to 0.99"
    )
    log = forms.BooleanField(required=False, help_text="a logarithmic value axis")
    at = forms.RegexField(
        r"^(last|common|\d{1,17})$",
        required=False,
        help_text="the value to compare: last, common (at the last step reached by all), or a step",
    )
    top = forms.ChoiceField(
        required=False,
        choices=TOPS,
        help_text="of too many groups, those with the highest or the lowest mean of the last values",
    )
    all = forms.BooleanField(required=False, help_text="also fields that are equal in all runs")
    axes = forms.CharField(
        required=False, max_length=2000, help_text="comma-separated config fields and metrics"
    )
    brush = forms.CharField(
        required=False, max_length=2000, help_text="selected ranges of axes: name:least:most, or name:value"
    )
    kind = forms.ChoiceField(
        required=False, choices=KINDS, help_text="eval (greedy, the default) or eval_sampled"
    )
    task = forms.CharField(required=False, max_length=200, help_text="only this task")

    def clean_x(self) -> str:
        """Refuse an invalid expression."""
        x = str(self.cleaned_data["x"])
        try:
            if x and x not in dict(AXES):
                expression_read(x, "x")
        except ConfigError as error:
            raise forms.ValidationError(error.fields["x"]) from error
        return x

    def choice(self) -> Choice:
        """Return the valid fields; defaults for the others."""
        self.is_valid()
        fields = {name: value for name, value in self.cleaned_data.items() if value not in ("", None)}
        return Choice(**fields)


def meant(choice: Choice, runs: Sequence[Run]) -> Choice:
    """Return the choice with the runs' own default metric if none was requested and all runs share it."""
    if choice.key != Choice.key:
        return choice
    if key := metric_compared(runs):
        return replace(choice, key=key)
    headlines = {agent_pages(config).headline for config in configs_of(runs)}
    return replace(choice, key=headlines.pop()) if len(headlines) == 1 else choice


def choice_read(query: QueryDict) -> Choice:
    """Return the choice of a page's URL; invalid parameters are ignored. `runs` and `key` may be repeated."""
    return ChoiceForm(_joined(query)).choice()


def choice_demand(query: QueryDict) -> Choice:
    """Return the choice of an API request. Raises ConfigError for invalid parameters."""
    form = ChoiceForm(_joined(query))
    if not form.is_valid():
        raise ConfigError({name: " ".join(map(str, messages)) for name, messages in form.errors.items()})
    return form.choice()


def _joined(query: QueryDict) -> dict[str, str]:
    parameters = {name: str(value) for name, value in query.dict().items()}
    return parameters | {name: ",".join(query.getlist(name)) for name in ("runs", "key") if name in query}
