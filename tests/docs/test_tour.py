"""The README's tour: every page and step of docs/tour.py has its line and two small pictures."""

import struct
from pathlib import Path

import pytest

from docs.tour import DAY, SHOTS, Shot

ROOT = Path(__file__).resolve().parents[2]
LARGEST = 200_000


@pytest.mark.parametrize("shot", SHOTS, ids=lambda shot: shot.name)
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_each_page_is_shown(shot: Shot, theme: str) -> None:
    readme = (ROOT / "README.md").read_text()
    name = f"docs/images/{shot.name}-{theme}.png"
    assert shot.line in readme and name in readme
    assert_small_picture(name)


@pytest.mark.parametrize("name", DAY)
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_each_step_of_the_first_day_is_shown(name: str, theme: str) -> None:
    readme = (ROOT / "README.md").read_text()
    picture = f"docs/images/day-{name}-{theme}.png"
    assert DAY[name] in readme and picture in readme
    assert_small_picture(picture)


def assert_small_picture(name: str) -> None:
    picture = (ROOT / name).read_bytes()
    assert len(picture) < LARGEST
    assert picture[:8] == b"\x89PNG\r\n\x1a\n" and struct.unpack(">I", picture[16:20]) == (1440,)
