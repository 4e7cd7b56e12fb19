"""`troupe bundle`: runs in one file that opens offline, and their import into another server."""

from pathlib import Path
from typing import Annotated

import typer

from training_core.errors import TroupeError
from troupe_client.cli.arguments import AsJson, InProject, project_slug
from troupe_client.cli.output import console, print_json, print_line
from troupe_client.server_api import ServerAway, find_server
from workers.telemetry.delivery import Undelivered

app = typer.Typer()


@app.command("create")
def create(
    runs: Annotated[list[str], typer.Argument(metavar="RUN...", help="Ids of runs.")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="The file; default: named after the first run.")
    ] = None,
    episodes: Annotated[
        int | None, typer.Option(help="Only so many of the newest episodes of each run.", min=0)
    ] = None,
    media: Annotated[bool, typer.Option(help="Whether the file has the media.")] = True,
    as_json: AsJson = False,
) -> None:
    """Write curves, transcripts, media, findings and configs to one HTML file that opens without a server."""
    from troupe_client.bundles.writing import bundle_write, run_document

    server, documents = find_server(), []
    for run in dict.fromkeys(runs):
        with console.status(f"run {run}"):
            documents.append(run_document(server, run, episodes, media=media))
    path = output or Path(f"{documents[0]['run']['id']}.html")
    size = bundle_write(documents, path)
    if as_json:
        return print_json({"file": str(path), "bytes": size})
    stored = sum(len(document["episodes"]) for document in documents)
    print_line(f"{path}  {len(documents)} runs, {stored} episodes, {size / 1e6:.1f} MB")


@app.command("import")
def import_bundle(
    file: Annotated[Path, typer.Argument(help="A file that `troupe bundle create` wrote.")],
    project: InProject = "",
    most_mib: Annotated[
        int,
        typer.Option(
            help="Maximum size of its data, decompressed, in MiB; they are read into memory.", min=1
        ),
    ] = 512,
    as_json: AsJson = False,
) -> None:
    """Import the runs of a bundle; repeat it to add what a later bundle has."""
    from troupe_client.bundles.importing import bundle_read, run_import

    server, imported = find_server(), []
    refused: list[str] = []
    slug = project_slug(server, project)
    for document in bundle_read(file, most_mib):
        with console.status(f"run {document['run']['name']}"):
            try:
                run = run_import(server, document, slug)
            except Undelivered as error:
                raise TroupeError(f"the import has stopped: {error}; repeat it to continue") from error
            except ServerAway:
                raise
            except TroupeError as error:
                refused.append(str(error))
                continue
        imported.append({"run": run, "from": document["run"]["id"], "name": document["run"]["name"]})
        if not as_json:
            print_line(f"{run}  {document['run']['name']}")
    if as_json:
        print_json(imported)
    if refused:
        raise TroupeError("\n".join(refused))
