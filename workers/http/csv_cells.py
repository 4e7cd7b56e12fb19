"""Cells of CSV files that people open in a spreadsheet."""

FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")


def cell_text(value: object) -> object:
    """The value of a cell; text that a spreadsheet would calculate as a formula is preceded by an apostrophe.

    https://owasp.org/www-community/attacks/CSV_Injection. Numbers, written as text or not, stay as they are.
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
