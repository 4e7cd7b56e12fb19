"""Numbers, times and sizes as people read them, the same on the server and in the browser."""

import json
import subprocess
from pathlib import Path
from shutil import which

import pytest

from webapp.common.formats import change, duration, figure, fixed, hours, number, reward, signed, size
from webapp.common.templatetags.troupe import code_words, episode_name, spark_points
from webapp.common.tones import policy_tones, role_tones

NUMBERS = {
    0.914: "0.91", -0.25: "−0.25", 12.4: "12.40", 123.45: "123.5", 8412.4: "8,412", 0.0012: "0.0012", 0.0: "0.00",
    1.2e-5: "1.2e−5", "NaN": "NaN", "-Infinity": "−∞", 1e300: "1.00e300", -1e300: "−1.00e300", 1e-300: "1.0e−300",
    123456789012.0: "123,456,789,012",
}  # fmt: skip
FIGURES = {
    ("rollout/failed", 48.0): "48", ("eval/failed:max", 48.0): "48", ("rollout/failed", 1.5): "1.50", ("progress/tokens", 12.0): "12",
    ("progress/tokens", 9300.0): "9,300", ("policy/planner/computed_tokens", 7.0): "7", ("buffer/waited", 2.0): "2.00",
    ("train/return", 48.0): "48.00", ("train/return", "NaN"): "–", ("eval/success", None): "–", ("eval/failed", "Infinity"): "∞",
    ("loss", "NaN"): "NaN", ("progress/tokens", 1e300): "1.00e300",
}  # fmt: skip
"""(metric, value) -> its text."""
HOURS = {1.4e-4: "< 0.01", 0.0: "0.00", 0.02: "0.02", 12.0: "12.00"}
TIMES = {0: "0 s", 27.4: "27 s", 84: "1 min 24 s", 120: "2 min", 11100: "3 h 5 min", 187200: "2 d 4 h"}
SIZES = {512: "512 B", 1400: "1.4 kB", 5_300_020: "5.3 MB", 250_000_000: "250 MB"}


def test_formats() -> None:
    assert [number(value) for value in NUMBERS] == list(NUMBERS.values())
    assert [figure(value, key) for key, value in FIGURES] == list(FIGURES.values())
    assert [hours(value) for value in HOURS] == list(HOURS.values())
    assert [duration(value) for value in TIMES] == list(TIMES.values())
    assert [size(value) for value in SIZES] == list(SIZES.values())
    assert number(None) == "–" and number(9300) == "9,300"
    assert [fixed(12.345), fixed("NaN"), reward(0.0025), reward(-0.2)] == ["12.35", "NaN", "+0.00", "−0.20"]
    assert [number(-0.0), fixed(-0.001), fixed(1e300), number(10**300)] == [
        "0.00", "0.00", "1.00e300", "1.00e300",
    ]  # fmt: skip
    assert [change(3.0, "rollout/failed"), change(-0.5, "train/return")] == ["+3", "−0.50"]
    assert signed(0.5) == "+0.50" and signed(-0.5) == "−0.50" and signed(0.0) == "0.00"


@pytest.mark.skipif(not which("node"), reason="needs node to run the browser's half")
def test_browser_says_the_same() -> None:
    script = f"""
      import {{ number, figure, hours, duration, bytes }} from {json.dumps(Path("static/js/format.js").resolve().as_uri())};
      const [numbers, figures, costs, times, sizes] = {json.dumps(list(map(list, (NUMBERS, FIGURES, HOURS, TIMES, SIZES))))};
      const drawn = figures.map(([key, value]) => figure(value, key));
      console.log(JSON.stringify([numbers.map(number), drawn, costs.map(hours), times.map(duration), sizes.map(bytes)]));
    """
    told = subprocess.run(
        ["node", "--input-type=module", "-e", script], capture_output=True, text=True, check=True
    ).stdout
    assert json.loads(told) == [list(each.values()) for each in (NUMBERS, FIGURES, HOURS, TIMES, SIZES)]


def test_spark_points_span_the_box() -> None:
    assert spark_points([0.0, None, 1.0]) == "0.0,22.0 100.0,2.0"
    assert spark_points([1.0]) == "" and spark_points([]) == ""
    assert spark_points([2.0, 2.0]) == "0.0,22.0 100.0,22.0"


def test_tones_follow_roles_and_shared_policies_are_neutral() -> None:
    roles = {"a": {"policy": "x"}, "b": {"policy": "y"}, "c": {"policy": "y"}}
    assert role_tones({"team": {"roles": roles}}) == {"a": 1, "b": 2, "c": 3}
    assert policy_tones({"team": {"roles": roles}}) == {"x": 1, "y": 0}


def test_episode_names_are_short() -> None:
    assert episode_name("1-89-train-31") == "89·31" and episode_name("else") == "else"


def test_words_in_backticks_are_code_and_nothing_else_is_markup() -> None:
    assert code_words("made with `seed` and `<b>`") == (
        "made with <code>seed</code> and <code>&lt;b&gt;</code>"
    )
    assert code_words("<i>") == "&lt;i&gt;"
