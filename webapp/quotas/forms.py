"""The form of a project's quotas."""

from typing import ClassVar

from django import forms

from webapp.quotas.models import Quota
from webapp.quotas.selectors import LIMITS


class QuotaForm(forms.ModelForm):  # type: ignore[type-arg]
    """The limits; an empty field is no limit."""

    class Meta:
        model = Quota
        fields = LIMITS
        widgets: ClassVar = {name: forms.NumberInput(attrs={"placeholder": "no limit"}) for name in LIMITS}
        help_texts: ClassVar = {
            "runs": "Further runs wait in the queue. 0: no run starts.",
            "cpus": "All runs of the project together.",
            "gpus": "All runs of the project together.",
            "points": "Points of curves. Counted twice a minute.",
            "gigabytes": "Transcripts in the database and checkpoints on disk. Counted twice a minute.",
        }
