"""Short jobs: how they stand, what came out."""

import typer

app = typer.Typer()
