"""The parameters of charts next to the runs table."""

from django import forms

from training_core.errors import ConfigError
from webapp.panels.definitions import LONGEST, panels_read

BANDS = [
    ("sd", "standard deviation"),
    ("ci", "95% bootstrap interval"),
    ("minmax", "minimum to maximum"),
    ("none", "none"),
]


class ChartSettings(forms.Form):
    """Which runs are drawn, how they are grouped, and the panels. The browser reads x, smooth, logx and logy from the address."""

    charts = forms.BooleanField(required=False)
    shown = forms.CharField(required=False, max_length=4000)
    by = forms.CharField(required=False, max_length=200)
    band = forms.ChoiceField(required=False, choices=BANDS)
    panels = forms.CharField(required=False, max_length=LONGEST)
    x = forms.CharField(required=False, max_length=200)
    smooth = forms.FloatField(required=False, min_value=0, max_value=0.99)
    logx = forms.BooleanField(required=False)
    logy = forms.BooleanField(required=False)

    def clean_shown(self) -> str:
        """Return ids without NUL characters, which the database cannot query."""
        return str(self.cleaned_data["shown"]).replace("\0", "")

    def clean_panels(self) -> str:
        """Refuse panels that cannot be read."""
        text = str(self.cleaned_data["panels"])
        try:
            panels_read(text)
        except ConfigError as error:
            raise forms.ValidationError(error.fields["panels"]) from error
        return text

    def values(self) -> dict[str, str]:
        """Return the valid parameters as text."""
        self.is_valid()
        values = {name: value for name, value in self.cleaned_data.items() if value not in ("", None, False)}
        return {name: "1" if value is True else str(value) for name, value in values.items()}


WORDS = tuple(ChartSettings.base_fields)
"""Names of the parameters."""
