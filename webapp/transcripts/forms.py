"""What addresses of transcript pages may ask for."""

from django import forms

KINDS = [("train", "training"), ("eval", "greedy evaluation"), ("eval_sampled", "sampled evaluation")]
OUTCOMES = [("success", "solved"), ("unsolved", "not solved"), ("failed", "failed")]


class EpisodeFilters(forms.Form):
    """Filters of the transcripts list; what is not understood is left out."""

    q = forms.CharField(required=False, max_length=200)
    kind = forms.ChoiceField(required=False, choices=KINDS)
    outcome = forms.ChoiceField(required=False, choices=OUTCOMES)
    iteration = forms.IntegerField(required=False, min_value=0, max_value=2**31 - 1)
    probe = forms.BooleanField(required=False)
    before = forms.IntegerField(required=False, min_value=1, max_value=2**62)

    def values(self) -> dict[str, object]:
        """The filters that were given and make sense."""
        self.is_valid()
        return {name: value for name, value in self.cleaned_data.items() if value not in ("", None, False)}
