"""What addresses of run pages may ask for."""

from django import forms

from webapp.runs.models import RunState
from webapp.runs.sorting import LONGEST, sort_known

LEVELS = [
    ("debug", "debug and up"),
    ("info", "info and up"),
    ("warning", "warnings and errors"),
    ("error", "errors only"),
]


class RunFilters(forms.Form):
    """Filters of the runs list; what is not understood is left out."""

    q = forms.CharField(required=False, max_length=200)
    state = forms.ChoiceField(required=False, choices=RunState.choices)
    tag = forms.CharField(required=False, max_length=60)
    project = forms.CharField(required=False, max_length=60)
    filter = forms.CharField(required=False, max_length=2000, strip=False)
    sort = forms.CharField(required=False, max_length=LONGEST)
    columns = forms.CharField(required=False, max_length=2000)
    archived = forms.BooleanField(required=False)
    group = forms.ChoiceField(required=False, choices=[("family", "all but seed")])
    before = forms.IntegerField(required=False, min_value=0)

    def clean_sort(self) -> str:
        """An order that is one, or none."""
        sort = str(self.cleaned_data["sort"])
        return sort if sort_known(sort) else ""

    def values(self) -> dict[str, object]:
        """The filters that were given and make sense."""
        self.is_valid()
        return {name: value for name, value in self.cleaned_data.items() if value not in ("", None, False)}


class LogFilters(forms.Form):
    """Filters of the log."""

    q = forms.CharField(required=False, max_length=200)
    level = forms.ChoiceField(required=False, choices=LEVELS)

    def values(self) -> dict[str, object]:
        """The filters that were given and make sense."""
        self.is_valid()
        return {name: value for name, value in self.cleaned_data.items() if value not in ("", None)}


class RunNoteForm(forms.Form):
    """A note on a run."""

    text = forms.CharField(max_length=4000)
    step = forms.IntegerField(required=False, min_value=0, max_value=10**17)
