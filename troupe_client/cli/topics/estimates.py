"""What an experiment takes, before anything is spent."""

import json
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from troupe_client.cli.show import console, size, visible
from troupe_client.server_api import find_server

app = typer.Typer()
TONES = {"fits": "green", "waits": "yellow", "never": "bold red", "unknown": "yellow"}
VERDICTS = {
    "fits": "Fits the cluster now.",
    "waits": "Fits, but has to wait.",
    "never": "Does not fit the cluster.",
    "unknown": "Not known.",
}


@app.command()
def estimate(
    source: Annotated[str, typer.Argument(help="A preset's name, or a .toml file.")],
    overrides: Annotated[list[str] | None, typer.Argument(help="Fields to change: key=value.")] = None,
    prompt_tokens: Annotated[
        int | None, typer.Option(help="Length that prompts are taken to have.", min=1)
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for scripts.")] = False,
) -> None:
    """Say what a run takes (devices, memory, tokens), and whether the cluster has it. Status 1 where it never fits."""
    from troupe_client.cli.launching import launch_body

    body = launch_body(source, overrides or [])
    body |= {"prompt_tokens": prompt_tokens} if prompt_tokens else {}
    found = find_server().call("/api/v1/estimate/", body)
    if as_json:
        typer.echo(json.dumps(found, indent=2, ensure_ascii=False))
    else:
        _show(found)
    if found["verdict"]["level"] == "never":
        raise typer.Exit(1)


def _show(found: dict[str, Any]) -> None:
    verdict, cluster, volume = found["verdict"], found["cluster"], found["volume"]
    console.print(VERDICTS[verdict["level"]], style=TONES[verdict["level"]])
    for reason in verdict["reasons"]:
        _line(f"  {reason}")
    console.print(_pools(found["pools"]))
    wants = f"wants {found['wants']['cpus']:g} CPU cores and {found['wants']['gpus']:g} GPUs"
    there = f"; the cluster has {cluster['cpus']:g} and {cluster['gpus']:g}" if cluster else ""
    _line(wants + there)
    for policy in found["policies"]:
        counted = f"{policy['parameters']:,} parameters" if policy["parameters"] else policy["unknown"]
        _line(f"{policy['policy']}: {policy['model']}, {policy['precision']}, {counted}")
        for worker in policy["workers"]:
            _line(f"  {_device(worker)}: {size(worker['peak'])} at most ({_parts(worker['parts'])})")
    each = f"{volume['answers']:,} answers and {volume['tokens']:,} tokens"
    whole = f"at most {volume['tokens_total']:,} tokens; "
    if not found["policies"]:  # small networks: steps stand for answers
        each, whole = f"{volume['answers']:,} environment steps", ""
    _line(f"an iteration: {volume['episodes']:,} episodes, at most {each}")
    _line(
        f"the run: {whole}{volume['evaluations']:,} evaluations of {volume['evaluation_episodes']:,} episodes"
    )


def _pools(pools: list[dict[str, Any]]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("pool")
    for heading in ("workers", "CPU", "GPU"):
        table.add_column(heading, justify="right")
    for pool in pools:
        table.add_row(
            Text(visible(pool["name"])), str(pool["workers"]), f"{pool['cpus']:g}", f"{pool['gpus']:g}"
        )
    return table


def _device(worker: dict[str, Any]) -> str:
    return f"{worker['workers']} {worker['kind']} worker(s) on {'a GPU' if worker['gpus'] else 'the CPU'}"


def _parts(parts: dict[str, int]) -> str:
    return ", ".join(f"{name} {size(taken)}" for name, taken in parts.items())


def _line(text: str) -> None:
    console.print(Text(visible(text)), soft_wrap=True)
