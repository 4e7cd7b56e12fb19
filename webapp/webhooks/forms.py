"""The form of a new webhook."""

from django import forms

from webapp.webhooks.events import EVENTS


class WebhookForm(forms.Form):
    """The address and events of a webhook."""

    name = forms.CharField(max_length=80, label="Name")
    address = forms.CharField(
        max_length=2000,
        label="Address",
        help_text="https://host/path. It may contain a secret: it is encrypted, and only its host is shown.",
    )
    events = forms.MultipleChoiceField(
        label="Events",
        required=False,
        choices=[(name, f"{name}: {words}") for name, words in EVENTS.items()],
        widget=forms.CheckboxSelectMultiple,
        help_text="If none is selected, all events are sent.",
    )
