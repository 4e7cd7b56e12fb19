"""Artifacts: files, data sets, tables and models in versions."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from training_core.errors import TroupeError
from troupe_client.cli.arguments import AsJson, InProject, project_slug
from troupe_client.cli.output import print_documents, print_json, print_line, print_result
from troupe_client.documents.artifacts import Artifact
from troupe_client.reporting.artifacts import (
    artifact_find,
    cache_folder,
    files_of,
    version_body,
    version_fetch,
    version_put,
)
from troupe_client.server_api import find_server, project_path

app = typer.Typer()
Reference = Annotated[str, typer.Argument(help="NAME, NAME:v3 or NAME:alias.")]


@app.command("list")
def artifact_list(project: InProject = "", as_json: AsJson = False) -> None:
    """List the artifacts of a project with their newest version and aliases."""
    server = find_server()
    rows = server.call(project_path(project_slug(server, project), "artifacts/"))["results"]
    print_documents(rows, Artifact, as_json, "No artifacts yet: troupe artifact put NAME PATH")


@app.command("show")
def artifact_show(reference: Reference, project: InProject = "", as_json: AsJson = False) -> None:
    """Show a version: aliases, the run that made it, the runs that used it, its files."""
    server = find_server()
    version = artifact_find(server, project_slug(server, project), reference)
    if as_json:
        return print_json(version)
    print_line(
        f"{version['name']}:{version['version']}  {version['type']}  {version['size']} bytes  {version['digest'][:12]}"
    )
    print_line(f"aliases: {', '.join(version['aliases']) or 'none'}")
    print_line(
        f"made by: {version['made_by'] or 'no run'}; used by: {', '.join(version['used_by']) or 'no run'}"
    )
    for file in version["files"]:
        print_line(f"{file['sha256'][:12]}  {file['size']:>12}  {file['path']}")


@app.command("put")
def artifact_put(
    name: Annotated[str, typer.Argument(help="Name of the artifact.")],
    source: Annotated[Path | None, typer.Argument(help="A file or a folder.")] = None,
    checkpoint: Annotated[
        str, typer.Option(help="RUN:CHECKPOINT:POLICY in place of files, e.g. abcd2345:80:planner.")
    ] = "",
    kind: Annotated[str, typer.Option("--type", help="E.g. dataset, table, model.")] = "",
    alias: Annotated[list[str] | None, typer.Option(help="An alias; may be repeated.")] = None,
    metadata: Annotated[str, typer.Option(help="A JSON object.")] = "{}",
    project: InProject = "",
    as_json: AsJson = False,
) -> None:
    """Store a file, a folder, or a policy of a checkpoint as a version; equal contents are the same version."""
    if (source is None) == (not checkpoint):
        raise TroupeError("give either a path or --checkpoint RUN:CHECKPOINT:POLICY")
    server, facts = find_server(), _metadata(metadata)
    slug = project_slug(server, project)
    path = project_path(slug, "artifacts/")
    if source is not None:
        files = files_of(source)
        body = version_body(name, files, kind or "file", alias or [], facts)
        version = version_put(server, path, slug, body, files)
    else:
        run, _, rest = checkpoint.partition(":")
        which, _, policy = rest.partition(":")
        named = {"run": run, "name": which or "last", "policy": policy}
        body = {
            "name": name,
            "type": kind or "model",
            "checkpoint": named,
            "aliases": alias or [],
            "metadata": facts,
        }
        version = dict(server.call(path, body))
    aliases = ", ".join(version["aliases"])
    print_result(
        version,
        as_json,
        f"{version['name']}:{version['version']}  {aliases}  {server.page(version['page'])}",
    )


@app.command("get")
def artifact_get(
    reference: Reference,
    to: Annotated[Path | None, typer.Option(help="Folder to download into; default: the cache.")] = None,
    project: InProject = "",
    as_json: AsJson = False,
) -> None:
    """Download the files of a version, check their hashes, and print the folder."""
    server = find_server()
    version = artifact_find(server, project_slug(server, project), reference)
    if to:
        to.mkdir(parents=True, exist_ok=True)
    folder = str(version_fetch(server, version, to or cache_folder()))
    print_result({"folder": folder}, as_json, folder)


@app.command("alias")
def artifact_alias(
    reference: Reference,
    alias: Annotated[str, typer.Argument(help="The alias to set, e.g. production.")],
    remove: Annotated[bool, typer.Option("--remove", help="Remove the alias.")] = False,
    project: InProject = "",
    as_json: AsJson = False,
) -> None:
    """Point an alias to a version, or remove it."""
    server = find_server()
    version = artifact_find(server, project_slug(server, project), reference)
    body = {"alias": alias, "version": "" if remove else version["version"]}
    changed = server.call(f"/api/v1/artifacts/{version['artifact']}/aliases/", body)
    text = f"removed {alias}" if remove else f"{alias} is {version['name']}:{version['version']}"
    print_result(changed, as_json, text)


@app.command("delete")
def artifact_delete(reference: Reference, project: InProject = "", as_json: AsJson = False) -> None:
    """Delete the contents of a version that no alias and no run uses; its record remains."""
    server = find_server()
    version = artifact_find(server, project_slug(server, project), reference)
    path = f"/api/v1/artifacts/{version['artifact']}/versions/{version['version']}/"
    deleted = server.send("DELETE", path)
    print_result(deleted, as_json, f"deleted {version['name']}:{version['version']}")


@app.command("prune")
def artifact_prune(
    name: Annotated[str, typer.Argument(help="Only this artifact; default: all of the project.")] = "",
    last: Annotated[int, typer.Option(help="Newest versions to keep of each artifact.", min=0)] = 1,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only list the versions.")] = False,
    project: InProject = "",
    as_json: AsJson = False,
) -> None:
    """Delete the contents of old versions that no alias and no run uses."""
    server = find_server()
    path = project_path(project_slug(server, project), "artifacts/prune/")
    result = server.call(path, {"artifact": name, "last": last, "dry": dry_run})
    if as_json:
        return print_json(result)
    for row in result["deleted"]:
        print_line(f"{'would delete' if dry_run else 'deleted'}  {row['version']}  {row['size']} bytes")
    print_line(
        f"{len(result['deleted'])} versions, {result['freed']} bytes {'to free' if dry_run else 'freed'}"
    )


def _metadata(text: str) -> dict[str, Any]:
    try:
        tree = json.loads(text)
    except ValueError as error:
        raise TroupeError(f"--metadata is not JSON: {error}") from error
    if not isinstance(tree, dict):
        raise TroupeError('--metadata must be a JSON object such as {"rows": 100}')
    return tree
