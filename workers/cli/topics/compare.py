"""Runs side by side, and reports."""

import typer

app = typer.Typer()
