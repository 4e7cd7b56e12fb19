"""Query parameters of run pages."""

from django import forms

from webapp.runs.logs import LEVELS, LineFilter


class LogFilters(forms.Form):
    """Filters of the log."""

    q = forms.CharField(required=False, max_length=200)
    level = forms.ChoiceField(required=False, choices=LEVELS.items())
    source = forms.CharField(required=False, max_length=80)

    def chosen(self) -> LineFilter:
        """Return the valid filters."""
        self.is_valid()
        valid = {name: str(value or "") for name, value in self.cleaned_data.items()}
        return LineFilter(valid.get("source", ""), valid.get("level", ""), valid.get("q", ""))
