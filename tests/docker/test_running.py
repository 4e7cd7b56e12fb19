"""How the check of the containers judges a curve."""

import pytest

from tests.docker.run_containers import main
from tests.docker.running import CheckFailed, curve_of


def points(attempt: int, first: int, last: int) -> list[tuple[int, int]]:
    return [(attempt, step) for step in range(first, last + 1)]


def test_a_curve_of_one_attempt_is_whole() -> None:
    assert curve_of(points(1, 1, 5), 5).endswith("(attempt 1: 1 to 5; 0 played again after a lost attempt)")


def test_a_later_attempt_goes_on_at_its_checkpoint() -> None:
    assert "(attempt 1: 1 to 7, attempt 2: 6 to 9; 2 played again" in curve_of(
        points(1, 1, 7) + points(2, 6, 9), 9
    )


@pytest.mark.parametrize(
    ("found", "told"),
    [
        (points(1, 1, 4), "missing [5]"),
        (points(1, 1, 5) + [(1, 3)], "twice (attempt, iteration) [(1, 3)]"),
        (points(1, 1, 2) + points(1, 4, 4) + points(2, 3, 5), "attempt 1 has gaps"),
        ([], "missing [1, 2, 3, 4, 5]"),
    ],
)
def test_what_is_not_whole_is_told(found: list[tuple[int, int]], told: str) -> None:
    with pytest.raises(CheckFailed) as error:
        curve_of(found, 5)
    assert told in str(error.value)


@pytest.mark.parametrize(("options", "status"), [([], 1), (["--optional"], 0)])
def test_without_an_engine_only_the_optional_check_succeeds(
    options: list[str], status: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--compose", "no-such-engine compose", *options]) == status
    assert "no-such-engine cannot be started" in capsys.readouterr().out
