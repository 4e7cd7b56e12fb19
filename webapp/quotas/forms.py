"""The form of a project's quotas."""

from django import forms

from webapp.quotas.models import Quota
from webapp.quotas.selectors import LIMITS


class QuotaForm(forms.ModelForm):  # type: ignore[type-arg]
    """Numbers; an empty one is no limit."""

    class Meta:
        model = Quota
        fields = LIMITS
        help_texts = {
            "runs": "Others wait in the queue and say so. 0: none starts.",
            "cpus": "Of all runs of the project together.",
            "gpus": "Of all runs of the project together.",
            "points": "Numbers of curves. Counted twice a minute.",
            "gigabytes": "Transcripts in the database and checkpoints on disk. Counted twice a minute.",
        }
