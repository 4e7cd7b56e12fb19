"""Entry point of a short job: `python -m workers.job FOLDER --home HOME`.

The folder holds the request, and receives the results (see workers.storage.folders).
Exit status: 0 done; 1 failed, with the reason in error.json; 2 the request cannot be read.
"""

import argparse
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from training_core.config.files import parse_config, read_toml
from training_core.config.kinds import AnyConfig
from training_core.errors import CheckpointError, ConfigError
from training_core.importing import resolve
from workers.kinds import WORKER_KINDS
from workers.storage.folders import JobFolder
from workers.telemetry.faults import fault_of


def main(words: Sequence[str] | None = None) -> int:
    """Run one job and return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m workers.job", description="Do one short job.")
    parser.add_argument("folder", type=Path, help="the job's folder")
    parser.add_argument("--home", type=Path, required=True, help="data folder with base models")
    parser.add_argument(
        "--local", action="store_true", help="runs are launched in one process, as this job is"
    )
    arguments = parser.parse_args(words)
    folder = JobFolder(arguments.folder)
    try:
        request = folder.read("request")
        config = parse_config(read_toml(folder.config.read_text()))
        if request is None:
            raise ValueError("request.json is missing")
    except (ConfigError, OSError, ValueError) as error:
        sys.stderr.write(f"{arguments.folder}: {error}\n")
        return 2
    try:
        folder.write("progress", {"done": 0.0, "text": "loading"})
        result = _result(config, folder, arguments.home, request, local=arguments.local)
    except Exception as error:
        traceback.print_exc()
        folder.write("error", {"reason": str(fault_of(error))})
        return 1
    folder.write("result", result)
    return 0


def _result(
    config: AnyConfig, folder: JobFolder, home: Path, request: dict[str, Any], *, local: bool
) -> dict[str, Any]:
    """Results of the requested job. Raises TroupeError."""
    from workers.jobs.context import JobContext  # slow import: only after the request is valid

    checkpoint, other = (_intact(folder, request, name) for name in ("checkpoint", "other"))
    context = JobContext(config, folder, home, request["parameters"], checkpoint, other, local)
    result: dict[str, Any] = resolve(WORKER_KINDS[config.agents].jobs[request["kind"]])(context)
    return result


def _intact(folder: JobFolder, request: dict[str, Any], name: str) -> Path | None:
    """A checkpoint of the request, verified against its manifest. Raises CheckpointError and writes damage.json."""
    from training_core.checkpoints import damage

    checkpoint = Path(request[name]) if request[name] else None
    if checkpoint is None or not (problem := damage(checkpoint)):
        return checkpoint
    folder.write("damage", {"which": name, "found": problem})
    run = checkpoint.parent.parent.name
    raise CheckpointError(
        f"the checkpoint {checkpoint.name} of run {run} is damaged: {problem}", remedy="choose another one"
    )


if __name__ == "__main__":
    sys.exit(main())
