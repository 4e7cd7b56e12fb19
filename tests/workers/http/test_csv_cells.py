"""CSV files contain text, not formulas."""

import pytest

from workers.http.csv_cells import cell_text


@pytest.mark.parametrize(
    "text", ['=HYPERLINK("http://evil.example","x")', "+1+1", "-2+3", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "-"]
)
def test_formulas_are_quoted(text: str) -> None:
    assert cell_text(text) == f"'{text}"


@pytest.mark.parametrize("value", ["a=b", "", "planner", "-0.5", "-Infinity", "+3e4", -1.5, 3, None, True])
def test_other_values_stay_as_they_are(value: object) -> None:
    assert cell_text(value) is value
