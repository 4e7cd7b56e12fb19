"""Series out as CSV."""

import typer

app = typer.Typer()
