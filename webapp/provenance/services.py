"""Provenance of launches and attempts: bounds of a report (workers/provenance), storage, the document, the section of the Config tab."""

from collections.abc import Iterable, Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from training_core.errors import ConfigError
from troupe_client.documents import provenance as documents
from webapp.provenance.models import Provenance
from webapp.runs.logs import server_says
from webapp.runs.models import Run
from webapp.runs.selectors import packages_of
from workers.provenance.redaction import without_secrets
from workers.provenance.repository import unpacked_diff

LAUNCH = 0
"""Number of the record of a launch; attempts count from 1."""
SHORT = 12
"""Characters of a hash in comparisons."""


def _storable(text: str) -> str:
    return text.replace("\0", "\ufffd")


def _readable(packed: str) -> str:
    unpacked_diff(packed)
    return packed


Short = Annotated[str, Field(max_length=400), AfterValidator(_storable)]
Long = Annotated[str, Field(max_length=4000), AfterValidator(_storable)]
Clean = Annotated[Long, AfterValidator(without_secrets)]
"""Programs with an earlier version of the client send secrets that this version recognises."""
Hash = Annotated[str, Field(pattern=r"^([0-9a-f]{40}|[0-9a-f]{64})?$")]
Bytes = Annotated[int, Field(ge=0, le=2**63 - 1)]
Names = Annotated[list[Long], Field(max_length=200)]


class Part(BaseModel):
    """Base of the parts. Fields of a newer reporter are ignored."""

    model_config = ConfigDict(extra="ignore")


class Gpu(Part):
    """One GPU."""

    name: Short = ""
    memory: Bytes = 0
    driver: Short = ""


class Machine(Part):
    """One machine."""

    host: Short = ""
    system: Short = ""
    processor: Short = ""
    cores: Bytes = 0
    memory: Bytes = 0
    gpus: list[Gpu] = Field([], max_length=64)
    python: Short = ""


class Repository(Part):
    """State of a git repository, or `note`: why there is none."""

    name: Short
    folder: Long
    note: Long = ""
    commit: Hash = ""
    branch: Short = ""
    remote: Clean = ""
    changed: Names = []
    untracked: Names = []
    more: Bytes = 0
    diff: Annotated[str, Field(max_length=100_000), AfterValidator(_readable)] = ""
    diff_bytes: Bytes = 0
    diff_sha256: Hash = ""
    diff_cut: bool = False
    left_out: Names = []


class Code(Part):
    """A package that the config names by an import path."""

    field: Short
    path: Short
    version: Short = ""
    sha256: Hash = ""
    files: Bytes = 0
    note: Short = ""


class Data(Part):
    """A data file that the config names."""

    field: Short
    path: Long
    bytes: Bytes = 0
    sha256: Hash = ""
    sampled: bool = False
    note: Short = ""


class Reported(Part):
    """A provenance."""

    via: Short = ""
    """What launched the run: command line, form, API, sweep ..."""
    command: Clean = ""
    user: Short = ""
    """As a program of another tracker states it."""
    machine: Machine | None = None
    repositories: list[Repository] = Field([], max_length=8)
    packages: dict[Short, Short] = Field({}, max_length=64)
    installed: dict[Short, Short] = Field({}, max_length=1000)
    code: list[Code] = Field([], max_length=64)
    data: list[Data] = Field([], max_length=64)
    cluster: list[Machine] = Field([], max_length=256)
    engines: dict[Short, Short] = Field({}, max_length=64)
    """By policy with engine.type = "auto": the engine and the reason."""


def provenance_read(reported: Any) -> Reported:
    """Validate a report. Raises ConfigError with one message per field."""
    try:
        return Reported.model_validate(reported)
    except ValidationError as error:
        items = error.errors(include_url=False, include_context=False, include_input=False)[:20]
        fields = {".".join(map(str, ("provenance", *item["loc"]))): item["msg"] for item in items}
        raise ConfigError(fields) from error


def provenance_store(run: Run, attempt: int, reported: Reported) -> None:
    """Store a record. A second report of the same attempt adds its fields to the first."""
    facts = reported.model_dump(mode="json", exclude_unset=True)
    diffs = {}
    for repository in facts.get("repositories", []):
        if diff := repository.pop("diff", ""):
            diffs[repository["folder"]] = diff
    record = Provenance.objects.filter(run=run, attempt=attempt).first()
    if record is None:
        Provenance.objects.create(run=run, attempt=attempt, facts=facts, diffs=diffs)
        return
    record.facts = record.facts | facts
    record.save(update_fields=["facts"])
    if "repositories" in facts:
        Provenance.objects.filter(pk=record.pk).update(diffs=diffs)


def provenance_report(run: Run, attempt: int, reported: Any) -> None:
    """Store a driver's report; an invalid one is described in the run's log."""
    try:
        provenance_store(run, attempt, provenance_read(reported))
    except ConfigError as error:
        server_says(run, attempt, f"The provenance of this attempt was rejected: {error}")


def provenance_document(run: Run) -> documents.RunProvenance:
    """Return the records of a run, with diffs as text."""
    records = [_document(row) for row in Provenance.objects.filter(run=run).defer(None)]
    launch = records.pop(0) if records and records[0]["attempt"] == LAUNCH else None
    return documents.RunProvenance(run=run.pk, launch=launch, attempts=records, packages=packages_of(run))


def _document(row: Provenance) -> dict[str, Any]:
    repositories = [
        repository | {"diff": unpacked_diff(row.diffs.get(repository["folder"], ""))}
        for repository in row.facts.get("repositories", [])
    ]
    return {
        "attempt": row.attempt,
        "time": row.created_at,
        **row.facts,
        "repositories": repositories,
    }


def provenance_flat(runs: Iterable[Run]) -> dict[str, dict[str, Any]]:
    """Return run -> dotted field -> value, for comparisons: commit and changes of each repository, hashes of code and data,
    Python and machine. Values are of the last attempt; the code of the launch is included where it is another repository.
    """
    merged: dict[str, dict[str, Any]] = {}
    for row in Provenance.objects.filter(run__in=list(runs)).order_by("run", "attempt"):
        merged.setdefault(row.run_id, {}).update(_flat(row.facts))
    return merged


def _flat(facts: Mapping[str, Any]) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for repository in facts.get("repositories", []):
        if repository.get("commit"):
            flat[f"code.{repository['name']}.commit"] = repository["commit"][:SHORT]
            if "diff_sha256" in repository:  # other trackers state a commit only
                changes = repository["diff_sha256"][:SHORT]
                flat[f"code.{repository['name']}.uncommitted"] = changes or "none"
    for part in ("code", "data"):
        for item in facts.get(part, []):
            flat[f"{part}.{item['field']}"] = item.get("sha256", "")[:SHORT] or item.get("note", "")
    flat |= {f"engine.{policy}": chosen for policy, chosen in facts.get("engines", {}).items()}
    machine = facts.get("machine")
    if machine and "installed" in facts:  # the launch's machine only sent the request
        flat["machine.python"] = machine.get("python", "")
        flat["machine.processor"] = machine.get("processor", "")
        flat["machine.gpus"] = ", ".join(gpu.get("name", "") for gpu in machine.get("gpus", [])) or "none"
    return flat


def provenance_context(run: Run, chosen: str = "") -> dict[str, Any]:
    """Return {"launch", "attempt" (the chosen one, or the last), "numbers" of all, "repositories" with their numbers on the
    page, "code_differs": numbers of attempts whose code differs from the attempt before}.
    """
    document = provenance_document(run)
    attempts = {record["attempt"]: record for record in document.attempts}
    number = int(chosen) if chosen.isdecimal() and int(chosen) in attempts else max(attempts, default=0)
    shown = attempts.get(number)
    launch = document.launch
    repositories: list[dict[str, Any]] = []
    reporter = "program" if run.is_custom else "driver"
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
        "changed_at": _changes(document.attempts),
        "packages": document.packages,
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
