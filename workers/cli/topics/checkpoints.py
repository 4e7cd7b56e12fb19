"""Checkpoints: list, download, evaluate, fork, talk, match."""

import typer

app = typer.Typer()
