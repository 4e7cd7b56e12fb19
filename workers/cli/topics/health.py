"""Findings and rules."""

import typer

app = typer.Typer()
