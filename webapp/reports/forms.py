"""Forms of reports."""

from django import forms


class ReportForm(forms.Form):
    """A title and a text, with the revision they are based on."""

    title = forms.CharField(max_length=200, required=False)
    text = forms.CharField(required=False, strip=False)
    base = forms.IntegerField(required=False, min_value=1, max_value=2**31 - 1)
    project = forms.SlugField(required=False)
