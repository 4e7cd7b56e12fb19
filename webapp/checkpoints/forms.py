"""Forms of checkpoints."""

from django import forms

MOST = 10_000


class PruneForm(forms.Form):
    """How many checkpoints to keep."""

    last = forms.IntegerField(min_value=0, max_value=MOST)
    best = forms.IntegerField(min_value=0, max_value=MOST)
