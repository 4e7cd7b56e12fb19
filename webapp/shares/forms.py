"""The form of a new link."""

from typing import Any

from django import forms

LIFETIMES = {"1": "in a day", "7": "in a week", "30": "in 30 days", "365": "in a year", "": "never"}


class ShareForm(forms.Form):
    """A link to one run, or to a comparison of several."""

    run = forms.CharField(
        max_length=1000,
        label="Run",
        help_text="A run id; several ids, separated by commas, show a comparison.",
    )
    title = forms.CharField(
        max_length=200,
        required=False,
        label="Name",
        help_text="For example the recipient; shown only in this list.",
    )
    days = forms.ChoiceField(label="Expires", required=False, choices=list(LIFETIMES.items()), initial="30")

    def values(self) -> dict[str, Any]:
        """Return the arguments of `share_make`."""
        values = self.cleaned_data
        return target_of(values["run"].replace(",", " ").split()) | {
            "title": values["title"],
            "days": int(values["days"]) if values["days"] else None,
        }


def target_of(runs: list[str]) -> dict[str, str]:
    """Return kind and target of a link to one run, or to the comparison of several."""
    if len(runs) == 1:
        return {"kind": "run", "target": runs[0]}
    return {"kind": "comparison", "target": f"runs={','.join(runs)}" if runs else ""}
