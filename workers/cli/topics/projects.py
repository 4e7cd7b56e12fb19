"""Projects, people, tokens, audit, quotas, webhooks, share links."""

import typer

app = typer.Typer()
