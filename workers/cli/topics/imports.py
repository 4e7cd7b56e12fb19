"""Runs from elsewhere: TensorBoard's event files."""

import typer

app = typer.Typer()
