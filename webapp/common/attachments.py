"""Headers of downloads."""

from django.utils.http import content_disposition_header


def attachment(name: str) -> str:
    """Return the Content-Disposition for a download named `name`, with any characters."""
    return content_disposition_header(as_attachment=True, filename=name) or "attachment"
