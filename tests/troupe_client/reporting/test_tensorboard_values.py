"""Values of TensorBoard as media: edges of histograms, images of a batch, texts of a table."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tensorboard.util.tensor_util import make_tensor_proto

from training_core.errors import TroupeError
from troupe_client.reporting.media import Histogram, Image, Text
from troupe_client.reporting.tensorboard import media_of

PIXEL = b"\x89PNG\r\n\x1a\n"


def media(plugin: str, value: Any) -> list[Any]:
    return media_of(plugin, SimpleNamespace(tensor=make_tensor_proto(value)))


@pytest.mark.parametrize(
    ("rows", "counts", "edges"),
    [
        ([[0, 1, 2], [1, 3, 4]], [2, 4], [0, 1, 3]),
        ([[0, 0, 5], [0, 1, 2], [1, 1, 3], [1, 2, 0]], [10, 0], [0, 1, 2]),  # two buckets have no width
        ([[2, 2, 3], [2, 2, 4]], [7], [2 - 2e-6, 2 + 2e-6]),
        ([[0, 0, 3]], [3], [-0.5, 0.5]),
    ],
)
def test_buckets_without_width_are_added_to_a_neighbour(
    rows: list[list[float]], counts: list[float], edges: list[float]
) -> None:
    (histogram,) = media("histograms", np.array(rows, np.float32))
    assert isinstance(histogram, Histogram)
    assert histogram.counts == counts and histogram.edges == pytest.approx(edges)


def test_many_buckets_are_merged() -> None:
    rows = np.array([[left, left + 1, left] for left in range(1100)], np.float32)
    (histogram,) = media("histograms", rows)
    assert len(histogram.counts) == 367 and histogram.counts[:2] == [0 + 1 + 2, 3 + 4 + 5]
    assert histogram.edges[:3] == [0, 3, 6] and histogram.edges[-2:] == [1098, 1100]
    assert sum(histogram.counts) == sum(range(1100))


def test_images_and_texts() -> None:
    images = media("images", [b"4", b"5", PIXEL, PIXEL])
    assert [type(image) for image in images] == [Image, Image] and images[0].data == PIXEL
    (text,) = media("text", [[b"a", b"b"], [b"\xc3\xa9", b"d"]])
    assert isinstance(text, Text) and text.text == "a\nb\né\nd"
    with pytest.raises(TroupeError, match="large"):
        media("images", [b"4", b"5", *[PIXEL] * 33])
    assert media("audio", [b"x"]) == [] and media("histograms", np.zeros((0, 3), np.float32)) == []
