"""What the forms of checkpoints hold."""

from django import forms

MOST = 10_000


class PruneForm(forms.Form):
    """How many are kept."""

    last = forms.IntegerField(min_value=0, max_value=MOST)
    best = forms.IntegerField(min_value=0, max_value=MOST)
