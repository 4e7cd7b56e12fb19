"""Phases, waits, anatomy of an iteration."""

import typer

app = typer.Typer()
