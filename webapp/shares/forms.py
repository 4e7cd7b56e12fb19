"""The form of a new link."""

from typing import Any

from django import forms

LIFETIMES = {"1": "a day", "7": "a week", "30": "30 days", "365": "a year", "": "until it is revoked"}


class ShareForm(forms.Form):
    """One run, or several to compare."""

    run = forms.CharField(
        max_length=1000,
        label="Run",
        help_text="Its id; several ids, with commas between them, show their comparison.",
    )
    title = forms.CharField(
        max_length=200, required=False, label="Name", help_text="For this list alone: who it is for."
    )
    days = forms.ChoiceField(label="Works for", required=False, choices=list(LIFETIMES.items()), initial="30")

    def values(self) -> dict[str, Any]:
        """What `share_make` takes."""
        given = self.cleaned_data
        return target_of(given["run"].replace(",", " ").split()) | {
            "title": given["title"],
            "days": int(given["days"]) if given["days"] else None,
        }


def target_of(runs: list[str]) -> dict[str, str]:
    """Kind and target of a link to one run, or to the comparison of several."""
    if len(runs) == 1:
        return {"kind": "run", "target": runs[0]}
    return {"kind": "comparison", "target": f"runs={','.join(runs)}" if runs else ""}
