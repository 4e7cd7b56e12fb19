"""What the address of a timeline may ask for."""

from django import forms

LARGEST = 2**31 - 1


class Window(forms.Form):
    """Iterations; what is not understood is left out."""

    first = forms.IntegerField(required=False, min_value=-LARGEST, max_value=LARGEST)
    last = forms.IntegerField(required=False, min_value=0, max_value=LARGEST)

    def bounds(self) -> tuple[int | None, int | None]:
        """First and last iteration, or None for what was not given."""
        self.is_valid()
        return self.cleaned_data.get("first"), self.cleaned_data.get("last")
