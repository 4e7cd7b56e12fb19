"""The form of a new destination."""

from django import forms

from webapp.notifications.kinds.registry import KINDS
from webapp.runs.events import EVENTS


class DestinationForm(forms.Form):
    """The kind, address and events of a destination."""

    kind = forms.ChoiceField(label="Kind", choices=[(name, kind.title) for name, kind in KINDS.items()])
    name = forms.CharField(max_length=80, label="Name")
    address = forms.CharField(
        max_length=2000,
        label="Address",
        widget=forms.PasswordInput(attrs={"autocomplete": "off"}),
        help_text="Webhook: https://host/path. Channel: an Apprise URL such as mailto://user:password@host. "
        "It may contain a secret: it is encrypted, and not shown again.",
    )
    events = forms.MultipleChoiceField(
        label="Events",
        required=False,
        choices=[(name, f"{name}: {words}") for name, words in EVENTS.items()],
        widget=forms.CheckboxSelectMultiple,
        help_text="If none is selected, a webhook gets all events, a channel the findings.",
    )
