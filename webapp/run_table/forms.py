"""Query parameters of the runs table."""

from django import forms

from webapp.run_table.sorting import LONGEST, is_sort
from webapp.runs.models import RunState


class RunFilters(forms.Form):
    """Filters of the runs list; invalid values are ignored."""

    q = forms.CharField(required=False, max_length=200)
    state = forms.ChoiceField(required=False, choices=RunState.choices)
    tag = forms.CharField(required=False, max_length=60)
    project = forms.CharField(required=False, max_length=60)
    filter = forms.CharField(required=False, max_length=2000, strip=False)
    sort = forms.CharField(required=False, max_length=LONGEST)
    columns = forms.CharField(required=False, max_length=2000)
    archived = forms.BooleanField(required=False)
    group = forms.ChoiceField(required=False, choices=[("family", "everything except the seed")])
    before = forms.IntegerField(required=False, min_value=0)

    def clean_sort(self) -> str:
        """Return a valid sort order, or an empty text."""
        sort = str(self.cleaned_data["sort"])
        return sort if is_sort(sort) or sort.removeprefix("-") == "runs" else ""

    def values(self) -> dict[str, object]:
        """Return the valid filters."""
        self.is_valid()
        return {name: value for name, value in self.cleaned_data.items() if value not in ("", None, False)}
