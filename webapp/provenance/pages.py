"""The section "Code and machine" of the Config tab."""

from typing import Any

from webapp.provenance.selectors import provenance_document
from webapp.runs.models import Run, RunSource


def provenance_context(run: Run, chosen: str = "") -> dict[str, Any]:
    """Return {"launch", "attempt" (the chosen one, or the last), "numbers" of all, "repositories" with their numbers on the
    page, "code_differs": numbers of attempts whose code differs from the attempt before}.
    """
    document = provenance_document(run)
    attempts = {record["attempt"]: record for record in document["attempts"]}
    number = int(chosen) if chosen.isdecimal() and int(chosen) in attempts else max(attempts, default=0)
    shown = attempts.get(number)
    launch = document["launch"]
    repositories: list[dict[str, Any]] = []
    reporter = "program" if run.source == RunSource.CLIENT else "driver"
    for origin, record in (("of the launch", launch), (f"of the {reporter}", shown)):
        for repository in record["repositories"] if record else []:
            same = [row for row in repositories if _state(row) == _state(repository)]
            if same:
                same[0]["origin"] = f"of the launch and of the {reporter}"
            else:
                repositories.append(repository | {"origin": origin})
    for index, repository in enumerate(repositories):
        repository["anchor"] = f"diff-{index}"
    return {
        "launch": launch,
        "reporter": reporter,
        "attempt": shown,
        "numbers": list(attempts),
        "repositories": repositories,
        "changed_at": _changes(document["attempts"]),
        "packages": document["packages"],
    }


def _state(repository: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(repository.get(name) for name in ("name", "commit", "diff_sha256", "note"))


def _changes(attempts: list[dict[str, Any]]) -> list[int]:
    """Return the attempts whose code differs from that of the attempt before."""
    codes = [
        (
            sorted(str(_state(repository)) for repository in record["repositories"]),
            [item.get("sha256") for item in record.get("code", [])],
        )
        for record in attempts
    ]
    return [
        record["attempt"]
        for record, before, now in zip(attempts[1:], codes, codes[1:], strict=False)
        if before != now
    ]
