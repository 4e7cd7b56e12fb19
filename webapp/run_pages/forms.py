"""Query parameters of run pages."""

from django import forms

LEVELS = {
    "debug": "debug and up",
    "info": "info and up",
    "warning": "warnings and errors",
    "error": "errors only",
}
"""Levels of log lines from the lowest to the highest, with the label of the filter."""


class LogFilters(forms.Form):
    """Filters of the log."""

    q = forms.CharField(required=False, max_length=200)
    level = forms.ChoiceField(required=False, choices=LEVELS.items())

    def values(self) -> dict[str, object]:
        """Return the valid filters."""
        self.is_valid()
        return {name: value for name, value in self.cleaned_data.items() if value not in ("", None)}
