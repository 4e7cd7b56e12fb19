"""Values of TensorBoard's event files as numbers, media and config."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from training_core.errors import TroupeError
from troupe_client.reporting.media import Histogram, Image, Media, Text
from workers.telemetry.limits import MAX_BINS, MAX_ITEMS

if TYPE_CHECKING:
    from numpy import ndarray

START = "_hparams_/session_start_info"
"""Tag of a run's hyperparameters."""
SUFFIX = "/text_summary"
"""Of the tags of texts that torch writes."""


def media_of(plugin: str, value: Any) -> list[Media]:
    """Return the media of a value of this plugin; none for other plugins. Raises TroupeError for those that cannot be stored."""
    from tensorboard.util import tensor_util

    if plugin not in MEDIA:
        return []
    media: list[Media] = MEDIA[plugin](tensor_util.make_ndarray(value.tensor))
    if len(media) > MAX_ITEMS or any(item.limit for item in media):
        raise TroupeError("too large")
    return media


def hparams_of(value: Any) -> dict[str, Any]:
    """Return the hyperparameters of a value of the plugin hparams, if it has those of the run."""
    from tensorboard.plugins.hparams.metadata import parse_session_start_info_plugin_data

    if value.tag != START:
        return {}
    hparams: Mapping[str, Any] = parse_session_start_info_plugin_data(
        value.metadata.plugin_data.content
    ).hparams
    return {name: getattr(item, item.WhichOneof("kind"), None) for name, item in hparams.items()}


def _histogram(rows: "ndarray[Any, Any]") -> list[Media]:
    """rows (B, 3): left edge, right edge and count of a bucket. Buckets without width are added to their neighbour."""
    if not rows.size:
        return []
    edges, counts, narrow = [float(rows[0, 0])], [], 0.0
    for _, right, count in rows.tolist():
        if right > edges[-1]:
            edges.append(right)
            counts.append(count + narrow)
            narrow = 0.0
        elif counts:
            counts[-1] += count
        else:
            narrow += count
    if not counts:  # all values are equal
        half = abs(edges[0]) * 1e-6 or 0.5
        counts, edges = [narrow], [edges[0] - half, edges[0] + half]
    size = -(-len(counts) // MAX_BINS)
    sums = [sum(counts[start : start + size]) for start in range(0, len(counts), size)]
    return [Histogram(counts=sums, edges=[*edges[:-1:size], edges[-1]])]


def _texts(cells: "ndarray[Any, Any]") -> list[Media]:
    return [Text("\n".join(cell.decode("utf-8", "replace") for cell in cells.ravel().tolist()))]


def _images(cells: "ndarray[Any, Any]") -> list[Media]:
    """cells: width, height, and encoded images."""
    return [Image(cell) for cell in cells.ravel().tolist()[2:]]


MEDIA = {"histograms": _histogram, "text": _texts, "images": _images}
"""Plugin of TensorBoard -> its media."""
