"""What reporting costs a trainer, and how soon others can read it; beside an MLflow server where one is given.

    python -m tests.benchmarks.client_ingest [--mlflow PYTHON]

2,000 steps of 50 keys, logged step by step through `import troupe` to a whole stack of its own. "Readable" is when
another process has read the last value of the last step through the REST API. MLflow (its own environment, whose
python is PYTHON): a server on SQLite, the same values by `log_batch` of 1,000 metrics, its limit; a call returns when
the values can be read. Prints figures; a clock never fails a run.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

import troupe
from tests.end_to_end.running_stack import RunningStack
from webapp.stack.ports import free_ports

STEPS = 2000
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
run = client.create_run(client.create_experiment("speed")).info.run_id
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


def ours(repeats: int) -> float:
    """Values a second until readable, the best of the repeats; prints every one."""
    stack = RunningStack(TROUPE_LAUNCHER="local").start()
    try:
        os.environ |= {"TROUPE_URL": stack.url, "TROUPE_TOKEN": stack.token, "TROUPE_HOME": str(stack.home)}
        return max(one_run(stack) for _ in range(repeats))
    finally:
        stack.remove()


def one_run(stack: RunningStack) -> float:
    """Log all steps; print the calls' costs, the spool's rate, and when the last value was readable."""
    run = troupe.init()
    last = repr((STEPS - 1) * 0.37 + KEYS - 1)
    words = [sys.executable, "-c", READER, stack.url, stack.token, run.id, last]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as reader:
        assert reader.stdout and reader.stdout.readline() == "ready\n"
        names = [f"policy/p/m{key}" for key in range(KEYS)]
        costs = []
        first = time.time()
        for step in range(STEPS):
            values = {name: step * 0.37 + key for key, name in enumerate(names)}
            began = time.perf_counter()
            run.log(values, step)
            costs.append(time.perf_counter() - began)
        readable = float(reader.stdout.readline()) - first
    run.finish()
    count, ranked = STEPS * KEYS, sorted(costs)
    print(
        f"log call: median {ranked[STEPS // 2] * 1e6:.1f} µs, p99 {ranked[STEPS * 99 // 100] * 1e6:.1f} µs, "
        f"longest {ranked[-1] * 1e3:.2f} ms; spool {count / sum(costs):,.0f} values/s; "
        f"readable {count / readable:,.0f} values/s ({readable:.2f} s after the first call)",
        flush=True,
    )
    return count / readable


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
    """Until it answers, at most two minutes."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and process.poll() is None:
        try:
            if httpx.get(address, trust_env=False, timeout=5).status_code == 200:
                return
        except httpx.HTTPError:
            time.sleep(0.2)
    raise SystemExit(f"{address} does not answer")


def theirs(python: Path) -> float:
    """Values a second that an MLflow server takes in batches; prints the step-by-step rate too."""
    with mlflow_server(python) as url:
        words = [str(python), "-c", MLFLOW, url, str(STEPS), str(KEYS)]
        said = subprocess.run(words, capture_output=True, text=True, check=True).stdout.split()
    batches, steps = STEPS * KEYS / float(said[-2]), 40 * KEYS / float(said[-1])
    print(f"MLflow: {batches:,.0f} values/s by log_batch of 1,000; {steps:,.0f} values/s step by step")
    return batches


def main() -> None:
    """Both, side by side."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--mlflow", type=Path, help="python of an environment with MLflow and its server")
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    mine = ours(options.repeats)
    if options.mlflow:
        print(f"ratio: {mine / theirs(options.mlflow):.0f}")


if __name__ == "__main__":
    main()
