"""What is done to runs beside stopping them: notes, tags, filters, marks."""

import typer

app = typer.Typer()
