"""`troupe experiment estimate`: what a run needs, before it is launched."""

from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from troupe_client.cli.arguments import AsJson, Overrides, Source
from troupe_client.cli.output import console, plain_table, print_json, print_line, print_table, visible
from troupe_client.cli.show import size
from troupe_client.server_api import find_server

app = typer.Typer()
TONES = {"fits": "green", "waits": "yellow", "never": "bold red", "unknown": "yellow"}
VERDICTS = {
    "fits": "Fits the cluster now.",
    "waits": "Fits, but has to wait.",
    "never": "Does not fit the cluster.",
    "unknown": "Unknown.",
}


@app.command("estimate")
def estimate(
    source: Source,
    overrides: Overrides = None,
    prompt_tokens: Annotated[int | None, typer.Option(help="Assumed length of prompts.", min=1)] = None,
    as_json: AsJson = False,
) -> None:
    """Estimate devices, memory and tokens of a run; exit with 1 if it can never fit the cluster."""
    from troupe_client.cli.launching import launch_body

    body = launch_body(source, overrides or [])
    body |= {"prompt_tokens": prompt_tokens} if prompt_tokens else {}
    result = find_server().call("/api/v1/estimate/", body)
    if as_json:
        print_json(result)
    else:
        _show(result)
    if result["verdict"]["level"] == "never":
        raise typer.Exit(1)


def _show(result: dict[str, Any]) -> None:
    verdict, cluster, volume = result["verdict"], result["cluster"], result["volume"]
    console.print(VERDICTS[verdict["level"]], style=TONES[verdict["level"]])
    for reason in verdict["reasons"]:
        print_line(f"  {reason}")
    print_table(_pools(result["pools"]))
    cpus, gpus = result["wants"]["cpus"], result["wants"]["gpus"]
    needed = f"needs {cpus:g} CPU core{'s' * (cpus != 1)} and {gpus:g} GPU{'s' * (gpus != 1)}"
    available = f"; the cluster has {cluster['cpus']:g} and {cluster['gpus']:g}" if cluster else ""
    print_line(needed + available)
    for policy in result["policies"]:
        parameters = f"{policy['parameters']:,} parameters" if policy["parameters"] else policy["unknown"]
        parameters += " (published sizes: the model is not on the server's machine)" * policy["published"]
        print_line(
            f"{policy['policy']}: {policy['model']}, {policy['precision']}, {parameters}, engine {policy['engine']}"
        )
        if "micro_batch_tokens" in policy["sizes"]:
            tokens, answers = policy["sizes"]["micro_batch_tokens"], policy["sizes"]["max_batch"]
            print_line(
                f"  at most {tokens:,} tokens in a forward pass of the update, {answers:,} answers generated at a time"
            )
        for worker in policy["workers"]:
            print_line(f"  {_device(worker)}: at most {size(worker['peak'])} ({_parts(worker['parts'])})")
    per_iteration = f"{volume['answers']:,} answers and {volume['tokens']:,} tokens"
    in_total = f"at most {volume['tokens_total']:,} tokens; "
    if not result["policies"]:  # small networks: environment steps in place of answers
        per_iteration, in_total = f"{volume['answers']:,} environment steps", ""
    print_line(f"per iteration: {volume['episodes']:,} episodes, at most {per_iteration}")
    print_line(
        f"the run: {in_total}{volume['evaluations']:,} evaluations of {volume['evaluation_episodes']:,} episodes"
    )
    if duration := result["duration"]:
        print_line(
            f"roughly {duration['total'] / 3600:.1f} hours on {duration['card']} cards, from one measurement: per iteration "
            f"{duration['rollout']:.0f} s of rollout and {duration['update']:.0f} s of update"
        )


def _pools(pools: list[dict[str, Any]]) -> Table:
    table = plain_table("pool", "workers", "CPU", "GPU", right=("workers", "CPU", "GPU"))
    for pool in pools:
        table.add_row(
            Text(visible(pool["name"])), str(pool["workers"]), f"{pool['cpus']:g}", f"{pool['gpus']:g}"
        )
    return table


def _device(worker: dict[str, Any]) -> str:
    return f"{worker['workers']} {worker['kind']} worker(s) on {'a GPU' if worker['gpus'] else 'the CPU'}"


def _parts(parts: dict[str, int]) -> str:
    return ", ".join(f"{name} {size(count)}" for name, count in parts.items())
