"""The cost of reporting for a trainer, and the delay until others can read it; with --mlflow compared with an MLflow server.

    python -m tests.benchmarks.client_ingest [--mlflow PYTHON] [--repeats 5]

2,000 steps of 50 keys, logged step by step through `import troupe` to a whole stack of its own. "Readable" ends when
another process has read the last value of the last step through the REST API. MLflow (its own environment, whose
python is PYTHON): a server on SQLite, the same values by `log_batch` of 1,000 metrics, its limit; a call returns when
the values can be read. The same program of MLflow also logs into Troupe, at /mlflow.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

import httpx

import troupe
from tests.benchmarks.results import Benchmark, Ratio, Side, run_program
from tests.end_to_end.running_stack import RunningStack
from webapp.stack.servers import free_ports

STEPS, SMALL_STEPS = 2000, 20
KEYS = 50
READER = """
import sys, time, httpx
url, token, run, last = sys.argv[1:]
client = httpx.Client(headers={"Authorization": "Bearer " + token}, trust_env=False, timeout=60)
print("ready", flush=True)
while True:
    answer = client.get(f"{url}/api/v1/runs/{run}/series/", params={"keys": "policy/p/m49", "points": 10})
    if answer.status_code == 200 and last in answer.text:
        print(time.time(), flush=True)
        break
    time.sleep(0.01)
"""
MLFLOW = """
import sys, time
from mlflow.entities import Metric
from mlflow.tracking import MlflowClient
url, steps, keys = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
client = MlflowClient(url)
run = client.create_run(client.create_experiment(f"speed {time.time()}")).info.run_id
metrics = [Metric(f"policy/p/m{key}", step * 0.37 + key, 1_700_000_000_000 + step, step)
           for step in range(steps) for key in range(keys)]
began = time.perf_counter()
for first in range(0, len(metrics), 1000):
    client.log_batch(run, metrics[first:first + 1000])
print(time.perf_counter() - began)
began = time.perf_counter()
for step in range(40):
    client.log_batch(run, metrics[step * keys:(step + 1) * keys])
print(time.perf_counter() - began)
"""


UNITS = {
    "log call, median": "µs",
    "log call, p99": "µs",
    "to disk": "values/s",
    "readable through the API": "values/s",
}
MLFLOW_RATES = ("MLflow, log_batch of 1,000", "MLflow, step by step")
BRIDGE_RATES = ("MLflow's client to Troupe, log_batch of 1,000", "MLflow's client to Troupe, step by step")


def benchmark(*, small: bool = False, mlflow: Path | None = None) -> Benchmark:
    """One side logs to Troupe; with `mlflow` another logs to MLflow."""
    steps = SMALL_STEPS if small else STEPS
    return Benchmark(
        about=f"reporting of {KEYS} keys, {steps:,} steps in a row, to a whole stack",
        units=UNITS | (dict.fromkeys(MLFLOW_RATES + BRIDGE_RATES, "values/s") if mlflow else {}),
        open_sides=lambda: open_sides(steps, mlflow),
        ratios=(
            Ratio("readable / MLflow by batches", "readable through the API", MLFLOW_RATES[0]),
            Ratio("MLflow's client to Troupe / MLflow", BRIDGE_RATES[0], MLFLOW_RATES[0]),
        ),
        settings={"steps": steps, "keys": KEYS},
        foreign=frozenset({"MLflow"}),
    )


@contextmanager
def open_sides(steps: int, mlflow: Path | None) -> Iterator[Mapping[str, Side]]:
    """A stack, and an MLflow server if one is compared."""
    with ExitStack() as ends:
        stack = RunningStack(TROUPE_LAUNCHER="local")
        ends.callback(stack.remove)
        stack.start()
        os.environ |= {"TROUPE_URL": stack.url, "TROUPE_TOKEN": stack.token, "TROUPE_HOME": str(stack.home)}
        sides: dict[str, Side] = {"Troupe": partial(one_run, stack, steps)}
        if mlflow:
            os.environ["MLFLOW_TRACKING_TOKEN"] = stack.token
            server = ends.enter_context(mlflow_server(mlflow))
            sides["MLflow"] = partial(one_mlflow_run, mlflow, server, steps, MLFLOW_RATES)
            bridge = partial(one_mlflow_run, mlflow, f"{stack.url}/mlflow", steps, BRIDGE_RATES)
            sides["MLflow's client to Troupe"] = bridge
        one_run(stack, SMALL_STEPS)  # warms up
        yield sides


def one_run(stack: RunningStack, steps: int) -> Mapping[str, float]:
    """Log all steps: the cost of the calls, and the rate until the last value is readable."""
    run = troupe.init()
    last = repr((steps - 1) * 0.37 + KEYS - 1)
    words = [sys.executable, "-c", READER, stack.url, stack.token, run.id, last]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as reader:
        assert reader.stdout and reader.stdout.readline() == "ready\n"
        names = [f"policy/p/m{key}" for key in range(KEYS)]
        costs = []
        first = time.time()
        for step in range(steps):
            values = {name: step * 0.37 + key for key, name in enumerate(names)}
            began = time.perf_counter()
            run.log(values, step)
            costs.append(time.perf_counter() - began)
        readable = float(reader.stdout.readline()) - first
    run.finish()
    count, ranked = steps * KEYS, sorted(costs)
    figures = (
        ranked[steps // 2] * 1e6,
        ranked[steps * 99 // 100] * 1e6,
        count / sum(costs),
        count / readable,
    )
    return dict(zip(UNITS, figures, strict=True))


@contextmanager
def mlflow_server(python: Path) -> Iterator[str]:
    """An MLflow server on an empty SQLite store."""
    (port,) = free_ports(1)
    with tempfile.TemporaryDirectory() as folder:
        words = ["-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1"]
        store = ["--backend-store-uri", f"sqlite:///{folder}/mlflow.db", "--artifacts-destination", folder]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        server = subprocess.Popen([str(python), *words, *store], start_new_session=True, **quiet)
        try:
            url = f"http://127.0.0.1:{port}"
            wait_for(f"{url}/health", server)
            yield url
        finally:
            os.killpg(server.pid, 15)
            server.wait(20)


def wait_for(address: str, process: "subprocess.Popen[bytes]") -> None:
    """Wait until it answers, at most two minutes."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and process.poll() is None:
        try:
            if httpx.get(address, trust_env=False, timeout=5).status_code == 200:
                return
        except httpx.HTTPError:
            time.sleep(0.2)
    raise SystemExit(f"{address} does not answer")


def one_mlflow_run(python: Path, url: str, steps: int, names: tuple[str, str]) -> Mapping[str, float]:
    """Values a second that an MLflow server accepts, in batches and step by step."""
    words = [str(python), "-c", MLFLOW, url, str(steps), str(KEYS)]
    seconds = subprocess.run(words, capture_output=True, text=True, check=True).stdout.split()
    rates = (steps * KEYS / float(seconds[-2]), 40 * KEYS / float(seconds[-1]))
    return dict(zip(names, rates, strict=True))


if __name__ == "__main__":
    python = {"type": Path, "help": "python of an environment with MLflow and its server"}
    run_program("client_ingest", benchmark, __doc__, mlflow=python)
