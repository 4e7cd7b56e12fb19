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
