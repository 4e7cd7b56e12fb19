"""What addresses of transcript pages, and of their API, may ask for."""

from typing import Any

from django import forms

KINDS = [("train", "training"), ("eval", "greedy evaluation"), ("eval_sampled", "sampled evaluation")]
OUTCOMES = [("success", "solved"), ("unsolved", "not solved"), ("failed", "failed")]
FEW = ("q", "kind", "outcome", "iteration_min", "iteration_max")
"""Filters that are always in sight."""


def _word(text: str, most: int = 80) -> forms.CharField:
    return forms.CharField(required=False, max_length=most, help_text=text)


def _whole(text: str) -> forms.IntegerField:
    return forms.IntegerField(required=False, min_value=0, max_value=10**17, help_text=text)


def _real(text: str) -> forms.FloatField:
    return forms.FloatField(required=False, help_text=text)


def _truth(text: str) -> forms.NullBooleanField:
    return forms.NullBooleanField(required=False, help_text=text)


class EpisodeFilters(forms.Form):
    """Filters of transcripts; a page leaves out what it does not understand, the API refuses it."""

    q = _word('words seen or said, in title, task, outcome; "a phrase", -without, begin*', 400)
    kind = forms.ChoiceField(required=False, choices=KINDS, help_text="train, eval or eval_sampled")
    outcome = forms.ChoiceField(
        required=False, choices=OUTCOMES, help_text="success, unsolved or failed (the environment raised)"
    )
    iteration = _whole("of this iteration")
    iteration_min = _whole("of this iteration or later")
    iteration_max = _whole("of this iteration or earlier")
    role = _word("this role took part; a reward range is then of its own reward")
    policy = _word("this policy took part; a version is then its own")
    version = _whole("some policy (or `policy`) was at this version")
    reward_min = _real("return, or the reward of `role`, at least")
    reward_max = _real("return, or the reward of `role`, at most")
    tokens_min = _whole("at least so many response tokens")
    tokens_max = _whole("at most so many response tokens")
    turns_min = _whole("at least so many turns")
    turns_max = _whole("at most so many turns")
    truncated = _truth("some answer was cut at its token limit, or none was")
    failed = _truth("the environment raised, or it did not")
    probe = _truth("only probes, or none")
    environment = _word("type of the environment")
    task = _word("id of a task", 200)
    label = _word("somebody has labelled it, or an answer in it, so", 40)

    def values(self) -> dict[str, Any]:
        """The filters that were given and make sense."""
        self.is_valid()
        return {name: value for name, value in self.cleaned_data.items() if value not in ("", None)}


class Place(forms.Form):
    """Where in the stream a page begins."""

    before = forms.IntegerField(required=False, min_value=1, max_value=2**62)
    after = forms.IntegerField(required=False, min_value=0, max_value=2**62)

    def values(self) -> tuple[int | None, int | None]:
        """(before, after): ids of episodes."""
        self.is_valid()
        return self.cleaned_data.get("before"), self.cleaned_data.get("after")


class Start(forms.Form):
    """Where in a long episode a page begins."""

    start = forms.IntegerField(required=False, min_value=1, max_value=2**31 - 1)

    def place(self, size: int) -> int:
        """First place (from 0) of the piece of `size` answers that has the answer `start` (from 1)."""
        self.is_valid()
        return ((self.cleaned_data.get("start") or 1) - 1) // size * size


class Chosen(forms.Form):
    """Which answer of an episode, and which of its candidates, a page shows."""

    turn = forms.IntegerField(required=False, min_value=1, max_value=2**31 - 1)
    candidate = forms.IntegerField(required=False, min_value=1, max_value=2**31 - 1)

    def values(self) -> tuple[int, int | None]:
        """(turn, candidate), from 1; the first turn, and no candidate, where nothing is asked."""
        self.is_valid()
        return self.cleaned_data.get("turn") or 1, self.cleaned_data.get("candidate")


class NoteForm(forms.Form):
    """A label, a note, or both."""

    turn = forms.IntegerField(required=False, min_value=1, max_value=2**31 - 1)
    label = forms.CharField(required=False, max_length=40)
    text = forms.CharField(required=False, max_length=10_000)


class Strips(forms.Form):
    """Which film strips are shown."""

    kind = forms.ChoiceField(required=False, choices=KINDS[1:])
    task = forms.CharField(required=False, max_length=200)
    page = forms.IntegerField(required=False, min_value=0, max_value=10_000)

    def values(self) -> tuple[str, int, str]:
        """(kind, page, task)."""
        self.is_valid()
        given = self.cleaned_data
        return given.get("kind") or "eval", given.get("page") or 0, given.get("task") or ""


class Against(forms.Form):
    """The episode that another is compared with."""

    other = forms.IntegerField(min_value=1, max_value=2**62)
