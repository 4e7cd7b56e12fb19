"""The program as one file: `python -m tests.gpu.pack FILE.tar.gz [--wheels]`.

On the machine with the card: unpack it, then `python -m tests.gpu` in the folder. It needs Python 3.11 to 3.13, torch,
transformers and pydantic; nothing is downloaded. With `--wheels` it contains packages that such a machine may not have, for
this version of Python: `pip install --no-index --no-deps --target packages wheels/*.whl`, and `PYTHONPATH=packages`.
"""

import argparse
import io
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.benchmarks.folders import ROOT
from tests.gpu.results import COMMIT_FILE, commit

LIMIT = 60 * 10**6
"""Bytes of a pack."""
FOLDERS = ("training_core", "workers", "tests/gpu")
BENCHMARKS = ("ablation", "folders", "intervals", "local_runs", "plan_path_duo", "results")
FILES = ("LICENSE", *(f"tests/benchmarks/{name}.py" for name in BENCHMARKS))
SUFFIXES = (".py", ".toml", "")
SKIPPED = ("__pycache__",)
WHEELS = (
    "annotated-types", "httpcore2", "httpx2", "liger-kernel", "orjson", "psutil", "pydantic", "pydantic_core", "sniffio", "tomlkit",
    "truststore", "typing-inspection", "zstandard", "trl==1.16.0", "datasets", "dill", "multiprocess", "xxhash",
)  # fmt: skip
"""What a machine with torch and transformers may lack, in the versions of constraints.txt."""


def write_pack(path: Path, *, wheels: bool = False) -> int:
    """Write the pack; return its size in bytes. Raises SystemExit if it is too large."""
    with tarfile.open(path, "w:gz") as pack:
        for source in packed_files():
            pack.add(source, f"troupe-gpu/{source.relative_to(ROOT).as_posix()}")
        text = (commit() or "unknown").encode()
        entry = tarfile.TarInfo(f"troupe-gpu/{COMMIT_FILE.name}")
        entry.size = len(text)
        pack.addfile(entry, io.BytesIO(text))
        if wheels:
            add_wheels(pack)
    size = path.stat().st_size
    if size > LIMIT:
        raise SystemExit(f"{path} has {size:,} bytes; the limit is {LIMIT:,}")
    return size


def add_wheels(pack: tarfile.TarFile) -> None:
    """Download the wheels and add them to the pack."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:"]
        subprocess.run([*command, "-c", str(ROOT / "constraints.txt"), "-d", folder, *WHEELS], check=True)
        for wheel in sorted(Path(folder).glob("*.whl")):
            pack.add(wheel, f"troupe-gpu/wheels/{wheel.name}")


def packed_files() -> Iterator[Path]:
    """The files of a pack."""
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.is_file() and path.suffix in SUFFIXES and not set(path.parts) & set(SKIPPED):
                yield path
    yield from (ROOT / name for name in FILES)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tests.gpu.pack")
    parser.add_argument("file", type=Path)
    parser.add_argument("--wheels", action="store_true", help="with packages that the machine may not have")
    arguments = parser.parse_args()
    print(f"{arguments.file}: {write_pack(arguments.file, wheels=arguments.wheels):,} bytes")
