"""The form of a project's quotas."""

from typing import ClassVar

from django import forms

from webapp.quotas.models import Quota
from webapp.quotas.selectors import LIMITS


class QuotaForm(forms.ModelForm):  # type: ignore[type-arg]
    """Numbers; an empty one is no limit."""

    class Meta:
        model = Quota
        fields = LIMITS
        widgets: ClassVar = {name: forms.NumberInput(attrs={"placeholder": "no limit"}) for name in LIMITS}
        help_texts: ClassVar = {
            "runs": "Others wait in the queue and say so. 0: none starts.",
            "cpus": "Of all runs of the project together.",
            "gpus": "Of all runs of the project together.",
            "points": "Numbers of curves. Counted twice a minute.",
            "gigabytes": "Transcripts in the database and checkpoints on disk. Counted twice a minute.",
        }
