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
