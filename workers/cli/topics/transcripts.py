"""Episodes: find, read, label, export."""

import typer

app = typer.Typer()
