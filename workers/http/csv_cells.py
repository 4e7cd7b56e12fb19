"""Cells of CSV files that may be opened in a spreadsheet."""

FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")


def cell_text(value: object) -> object:
    """Return the value of a cell. Text that a spreadsheet would evaluate as a formula gets an apostrophe in front.

    Numbers, also those written as text, are unchanged. See https://owasp.org/www-community/attacks/CSV_Injection.
    """
    if isinstance(value, str) and value.startswith(FORMULA) and not _is_number(value):
        return f"'{value}"
    return value


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
