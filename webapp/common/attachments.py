"""Headers of files that are sent to be saved."""

from django.utils.http import content_disposition_header


def attachment(name: str) -> str:
    """The Content-Disposition under which a browser saves a file as `name`, whatever characters it has."""
    return content_disposition_header(as_attachment=True, filename=name) or "attachment"
