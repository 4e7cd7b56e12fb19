"""A line of a run's log as a terminal shows it: `troupe run`, a job's log and `troupe logs` print the same text."""


def log_text(level: str, source: str, message: str) -> str:
    """Return the message; in front of it, a level other than info and output, and a source other than the driver."""
    origin = " ".join(word for word in (level, source) if word not in ("info", "output", "driver"))
    return f"{origin}: {message}" if origin else message
