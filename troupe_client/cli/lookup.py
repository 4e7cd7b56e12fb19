"""Find saved objects by what people call them."""

from typing import Any

from troupe_client.server_api import ServerFailure


def find_named(rows: list[dict[str, Any]], name: str, kind: str) -> dict[str, Any]:
    """Return the row with this name, else the one with this number.

    Raises ServerFailure if there is none or if several have the name. `kind` is the word for a row, e.g. "view".
    """
    matches = [row for row in rows if row["name"] == name] or [row for row in rows if str(row["id"]) == name]
    if len(matches) == 1:
        return matches[0]
    names = ", ".join(f"{row['name']} ({row['id']})" for row in rows) or "none yet"
    problem = f"several {kind}s have the name" if matches else f"there is no {kind}"
    raise ServerFailure(f"{problem} {name!r}; {kind}s are {names}")
