"""Forms of runs."""

from django import forms


class RunNoteForm(forms.Form):
    """A note on a run."""

    text = forms.CharField(max_length=4000)
    step = forms.IntegerField(required=False, min_value=0, max_value=10**17)
