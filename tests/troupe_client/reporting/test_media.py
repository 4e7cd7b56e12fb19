"""Media of the client: what each class makes of its argument, and what is left out."""

import io
from pathlib import Path

import numpy as np
import PIL.Image
import pytest
import torch

from tests.troupe_client.reporting.test_client import stored_events
from training_core.errors import TroupeError
from troupe_client.reporting.client import ClientRun, run_begin
from troupe_client.reporting.media import Histogram, Image, Media, Table, Text
from workers.telemetry.limits import MAX_ITEMS, MAX_MEDIA_TEXT, MAX_ROWS


@pytest.fixture
def run(tmp_path: Path) -> ClientRun:
    return run_begin(mode="offline", dir=str(tmp_path))


def pixels(image: Image) -> np.ndarray:
    return np.asarray(PIL.Image.open(io.BytesIO(image.data)))


def test_a_histogram_counts_finite_values() -> None:
    values = [0.0, 0.5, 1.0, 1.0, 4.0, float("nan"), float("inf")]
    made = Histogram(values, bins=4, caption="layer 1:")
    assert made.edges == [0.0, 1.0, 2.0, 3.0, 4.0]
    assert made.counts == [2.0, 2.0, 0.0, 1.0]  # the last bin has both edges
    assert made.caption == "layer 1: 2 values are NaN or infinite"


@pytest.mark.parametrize(
    "values",
    [
        torch.ones(2, 3, dtype=torch.bfloat16, requires_grad=True),
        np.full((4,), 1e20),
        (float(n) for n in range(5)),
        [True, False],
        np.array([1e308, -1e308]),
        np.array([1.0, 1.0 + 1e-16]),
    ],
)
def test_values_of_any_kind_are_counted_once(values: object) -> None:
    made = Histogram(values)
    assert sum(made.counts) in (2, 4, 5, 6) and np.all(np.diff(made.edges) > 0)


def test_a_histogram_without_a_finite_value_is_empty() -> None:
    assert sum(Histogram([float("nan")]).counts) == 0


@pytest.mark.parametrize(
    ("counts", "edges"),
    [
        ([1], [0]),
        ([1, 2], [0, 1, 1]),
        ([-1], [0, 1]),
        ([1], [0, float("inf")]),
        ([1], [float("nan"), 1]),
        ([1], [-1e308, 1]),
        ([], [0.0]),
        (None, None),
    ],
)
def test_bad_bins_are_refused(counts: list[float] | None, edges: list[float] | None) -> None:
    with pytest.raises(TroupeError):
        Histogram(counts=counts, edges=edges)


@pytest.mark.parametrize("channels", [1, 3, 4])
def test_bytes_become_the_same_pixels(channels: int) -> None:
    array = np.random.default_rng(0).integers(0, 256, (5, 7, channels), dtype=np.uint8)
    made = Image(array)
    assert (pixels(made).reshape(array.shape) == array).all() and (made.width, made.height) == (7, 5)
    assert (pixels(Image(torch.tensor(array).permute(2, 0, 1))).reshape(array.shape) == array).all()


def test_other_numbers_are_scaled() -> None:
    assert pixels(Image([[0.0, 0.5], [1.0, 0.25]])).tolist() == [[0, 128], [255, 64]]
    assert pixels(Image([[-1.0, 1.0]])).tolist() == [[0, 255]]
    assert pixels(Image(np.array([[300, -5]]))).tolist() == [[255, 0]]
    assert pixels(Image(np.array([[True, False]]))).tolist() == [[255, 0]]


def test_pictures_of_libraries_and_files_are_kept(tmp_path: Path) -> None:
    picture = PIL.Image.new("RGB", (3, 2), "red")
    picture.save(tmp_path / "a.jpg")
    assert pixels(Image(picture)).shape == (2, 3, 3)
    assert Image(tmp_path / "a.jpg").data == (tmp_path / "a.jpg").read_bytes()
    with pytest.raises(TroupeError, match="PNG"):
        Image(b"<svg/>")


@pytest.mark.parametrize("array", [np.zeros(3), np.zeros((2, 2, 2, 2)), np.zeros((0, 2)), np.array([["a"]])])
def test_arrays_that_are_no_picture_are_refused(array: np.ndarray) -> None:
    with pytest.raises(TroupeError):
        Image(array)


def test_tables_of_every_form() -> None:
    named = Table([{"a": np.int64(1), "b": torch.tensor(0.5)}, {"b": None, "c": Path("x")}])
    assert (named.columns, named.rows) == (["a", "b", "c"], [[1, 0.5, None], [None, None, "x"]])
    assert Table([(1, True), [2**70, "y"]], columns=["n", "s"]).rows == [[1, True], [str(2**70), "y"]]
    assert Table(np.eye(2)).columns == ["0", "1"] and Table([], columns=["a"]).columns == ["a"]
    with pytest.raises(TroupeError, match="2 cells"):
        Table([[1, 2], [3]])


def test_media_are_stored_beside_scalars(run: ClientRun) -> None:
    run.log({"loss": 1.0, "layers": {"w": Histogram([1.0, 2.0])}, "shots": [Image([[0.0]]), Image([[1.0]])]})
    run.log({"note": Text("a\n<b>"), "table": Table([{"x": float("nan"), "y": None}])}, step=7)
    assert [event["values"] for event in stored_events(run, "metrics")] == [{"loss": 1.0}]
    found = {event["name"]: event for event in stored_events(run, "media")}
    assert {name: event["step"] for name, event in found.items()} == {
        "layers/w": 0, "shots": 0, "note": 7, "table": 7,
    }  # fmt: skip
    assert len(found["shots"]["values"]) == 2 and found["table"]["values"][0]["rows"] == [["NaN", None]]


@pytest.mark.parametrize(
    "value", [Text("x" * (MAX_MEDIA_TEXT + 1)), Table([[0]] * (MAX_ROWS + 1)), [Text("x")] * (MAX_ITEMS + 1)]
)
def test_too_large_media_are_left_out_with_one_warning(
    run: ClientRun, value: Media | list[Media], caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(3):
        run.log({"large": value, "loss": 1.0})
    assert not stored_events(run, "media") and len(stored_events(run, "metrics")) == 3
    assert sum("large" in record.getMessage() for record in caplog.records) == 1


def test_many_large_images_are_left_out_in_the_log(run: ClientRun) -> None:
    noise = np.random.default_rng(0).integers(0, 256, (1000, 1000, 3), dtype=np.uint8)
    run.log({"large": [Image(noise)] * 3})
    assert not stored_events(run, "media") and "8 MiB" in stored_events(run, "log")[-1]["message"]
