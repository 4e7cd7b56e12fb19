"""Query parameters of the transcript pages and their API."""

from typing import Any

from django import forms

from webapp.common.query_language import LONGEST
from webapp.transcripts.quarters import QUARTERS, RECENT

KINDS = [("train", "training"), ("eval", "greedy evaluation"), ("eval_sampled", "sampled evaluation")]
OUTCOMES = [("success", "solved"), ("unsolved", "not solved"), ("error", "error")]
FEW = ("query", "q", "kind", "outcome", "quarter", "iteration_min", "iteration_max")
"""Filters that are always visible."""


def _word(text: str, most: int = 80) -> forms.CharField:
    return forms.CharField(required=False, max_length=most, help_text=text)


def _whole(text: str) -> forms.IntegerField:
    return forms.IntegerField(required=False, min_value=0, max_value=10**17, help_text=text)


def _real(text: str) -> forms.FloatField:
    return forms.FloatField(required=False, help_text=text)


def _truth(text: str) -> forms.NullBooleanField:
    return forms.NullBooleanField(required=False, help_text=text)


class EpisodeFilters(forms.Form):
    """Filters of transcripts; pages ignore invalid values, the API rejects them."""

    query = forms.CharField(
        required=False,
        max_length=LONGEST,
        help_text="the query language, e.g. planner.reward > 0 and turns >= 3",
    )
    q = _word('words in prompts, responses, title, task, outcome; "a phrase", -without, begin*', 400)
    kind = forms.ChoiceField(required=False, choices=KINDS, help_text="train, eval or eval_sampled")
    outcome = forms.ChoiceField(
        required=False,
        choices=[*OUTCOMES, ("failed", "error")],
        help_text="success, unsolved or error (the environment raised an error)",
    )
    quarter = forms.ChoiceField(
        required=False,
        choices=QUARTERS,
        help_text=f"quarter of the returns of the newest {RECENT:,} stored episodes, 4 is the highest; for runs without success",
    )
    iteration = _whole("this iteration")
    iteration_min = _whole("this iteration or later")
    iteration_max = _whole("this iteration or earlier")
    role = _word("episodes with this role; a reward range then applies to its own reward")
    policy = _word("episodes with this policy; a version then applies to it")
    version = _whole("some policy (or `policy`) had this version")
    reward_min = _real("return, or the reward of `role`, at least")
    reward_max = _real("return, or the reward of `role`, at most")
    tokens_min = _whole("minimum number of response tokens")
    tokens_max = _whole("maximum number of response tokens")
    turns_min = _whole("minimum number of turns")
    turns_max = _whole("maximum number of turns")
    truncated = _truth("whether a response was cut at its token limit")
    failed = _truth("whether the environment raised an error")
    probe = _truth("only probes, or no probes")
    environment = _word("type of the environment")
    task = _word("id of a task", 200)
    label = _word("label of the episode, or of a turn in it", 40)

    def values(self) -> dict[str, Any]:
        """Return the valid filters."""
        self.is_valid()
        values = {name: value for name, value in self.cleaned_data.items() if value not in ("", None)}
        return values | ({"outcome": "error"} if values.get("outcome") == "failed" else {})


class TableOrder(forms.Form):
    """Columns, order and page of the table of episodes; invalid numbers are ignored."""

    columns = forms.CharField(required=False, max_length=2000)
    sort = forms.CharField(required=False, max_length=250)
    page = forms.CharField(required=False, max_length=9)
    upto = forms.IntegerField(required=False, min_value=1, max_value=2**62)

    def values(self) -> dict[str, Any]:
        """Return columns, sort, page, and upto: the newest episode of the table when its first page was shown."""
        self.is_valid()
        texts = {name: self.cleaned_data.get(name) or "" for name in ("columns", "sort", "page")}
        return texts | {"upto": self.cleaned_data.get("upto")}


class ListPosition(forms.Form):
    """Position in the list at which a page begins."""

    before = forms.IntegerField(required=False, min_value=1, max_value=2**62)
    after = forms.IntegerField(required=False, min_value=0, max_value=2**62)

    def values(self) -> tuple[int | None, int | None]:
        """Return (before, after): ids of episodes."""
        self.is_valid()
        return self.cleaned_data.get("before"), self.cleaned_data.get("after")


class Start(forms.Form):
    """Position in a long episode at which a page begins."""

    start = forms.IntegerField(required=False, min_value=1, max_value=2**31 - 1)

    def place(self, size: int) -> int:
        """Return the first index (from 0) of the piece of `size` turns that contains turn `start` (from 1)."""
        self.is_valid()
        return ((self.cleaned_data.get("start") or 1) - 1) // size * size


class Chosen(forms.Form):
    """The turn of an episode, and its candidate, that a page shows."""

    turn = forms.IntegerField(required=False, min_value=1, max_value=2**31 - 1)
    candidate = forms.IntegerField(required=False, min_value=1, max_value=2**31 - 1)

    def values(self) -> tuple[int, int | None]:
        """Return (turn, candidate), from 1; the default is the first turn and no candidate."""
        self.is_valid()
        return self.cleaned_data.get("turn") or 1, self.cleaned_data.get("candidate")


class NoteForm(forms.Form):
    """A label, a note, or both."""

    turn = forms.IntegerField(required=False, min_value=1, max_value=2**31 - 1)
    label = forms.CharField(required=False, max_length=40)
    text = forms.CharField(required=False, max_length=10_000)


class Strips(forms.Form):
    """The probe timelines to show."""

    kind = forms.ChoiceField(required=False, choices=KINDS[1:])
    task = forms.CharField(required=False, max_length=200)
    page = forms.IntegerField(required=False, min_value=0, max_value=10_000)

    def values(self) -> tuple[str, int, str]:
        """Return (kind, page, task)."""
        self.is_valid()
        values = self.cleaned_data
        return values.get("kind") or "eval", values.get("page") or 0, values.get("task") or ""


class Against(forms.Form):
    """The episode to compare with."""

    other = forms.IntegerField(min_value=1, max_value=2**62)
