"""Query parameters of a timeline's URL."""

from math import isfinite

from django import forms

LARGEST = 2**31 - 1
LATEST = 253402300799.0
"""Seconds since the epoch, until the year 9999."""


class Window(forms.Form):
    """Range of iterations or times; invalid values are ignored."""

    first = forms.IntegerField(required=False, min_value=-LARGEST, max_value=LARGEST)
    last = forms.IntegerField(required=False, min_value=0, max_value=LARGEST)

    def bounds(self) -> tuple[int | None, int | None]:
        """Return first and last iteration, or None for missing ones."""
        self.is_valid()
        return self.cleaned_data.get("first"), self.cleaned_data.get("last")

    def moments(self) -> tuple[float, float] | None:
        """Return ?from= and ?to= in seconds since the epoch; None unless both are given and in order."""
        return moments_read(self.data.get("from", ""), self.data.get("to", ""))


class BatchQuery(forms.Form):
    """An iteration; invalid values are ignored."""

    number = forms.IntegerField(required=False, min_value=0, max_value=LARGEST)

    def iteration(self) -> int | None:
        """Return ?iteration=, or None."""
        try:
            number: int | None = self.fields["number"].clean(self.data.get("iteration", ""))
        except forms.ValidationError:
            return None
        return number


def moments_read(start: str, end: str) -> tuple[float, float] | None:
    """Parse two times; None if they are invalid, out of range or out of order."""
    try:
        first, last = float(start), float(end)
    except (TypeError, ValueError):
        return None
    if not (isfinite(first) and isfinite(last)) or not 0 <= first < last <= LATEST:
        return None
    return first, last
