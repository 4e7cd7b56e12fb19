"""Templates, sweeps, estimates, dry runs."""

import typer

app = typer.Typer()
