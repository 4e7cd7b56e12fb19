"""Limits of events, shared with writers of events, which do not import the slow `events.py`."""

MAX_DEPTH = 32
"""Levels of nesting in free-form data."""
MAX_DATA = 256 << 10
"""Bytes of free-form data as JSON."""
MAX_METRICS = 1000
"""Names in one event."""
MAX_TEXT = 20_000
"""Characters of messages and errors."""
MAX_KEYS = 64
"""Fields of an event or of a part of one; no model has this many."""
MAX_NAME = 200
"""Characters of a metric's name."""
NAME_REST = "[^\x00-\x1f\x7f-\x9f,\u2028-\u202e\u2066-\u2069]"
"""A character of a metric's name: any except control characters, and the comma, which separates names in addresses."""
NAME_FIRST = "[^ /\x00-\x1f\x7f-\x9f,\u2028-\u202e\u2066-\u2069]"
"""Its first character: a name begins with neither a space nor an empty section."""
MAX_MEDIA = 8 << 20
"""Bytes of the media of one name and step as JSON."""
MAX_IMAGE = 4 << 20
"""Bytes of an encoded image."""
MAX_ITEMS = 32
"""Media of one name and step."""
MAX_BINS = 512
"""Bins of a histogram."""
MAX_EDGE = 1e300
"""Largest edge and count of a histogram: differences and sums of them are finite."""
MAX_ROWS = 10_000
"""Rows of a table."""
MAX_COLUMNS = 100
"""Columns of a table."""
MAX_CELL = 2_000
"""Characters of a cell of a table."""
MAX_MEDIA_TEXT = 100_000
"""Characters of a text that is media."""
MAX_CAPTION = 500
"""Characters of a caption."""
IMAGE_TYPES = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF8": "image/gif",
    b"RIFF": "image/webp",
}
"""First bytes of images, with their types. SVG is not among them, because it can contain scripts."""


def image_type(start: bytes) -> str:
    """Return the media type of an image by its first bytes; empty for anything else."""
    kind = next((kind for first, kind in IMAGE_TYPES.items() if start.startswith(first)), "")
    return "" if kind == "image/webp" and start[8:12] != b"WEBP" else kind
