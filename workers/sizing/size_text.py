"""Sizes of memory as text."""


def size_text(count: int) -> str:
    """Format bytes in powers of 1,000: 512 B, 1.4 MB."""
    value, unit = float(count), "B"
    for larger in ("kB", "MB", "GB", "TB"):
        if value < 1000:
            break
        value, unit = value / 1000, larger
    return f"{value:.0f} {unit}" if unit == "B" or value >= 100 else f"{value:.1f} {unit}"
