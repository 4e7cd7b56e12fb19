"""The program as one file: `python -m tests.gpu.pack FILE.tar.gz`.

On the machine with the card: unpack it, then `python -m tests.gpu` in the folder. It needs Python 3.11 to 3.13, torch,
transformers and pydantic; nothing is downloaded.
"""

import io
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

from tests.benchmarks.folders import ROOT
from tests.gpu.results import COMMIT_FILE, commit

LIMIT = 60 * 10**6
"""Bytes of a pack."""
FOLDERS = ("training_core", "tests/gpu")
BENCHMARKS = ("ablation", "folders", "intervals", "local_runs", "plan_path_duo", "results")
FILES = ("LICENSE", *(f"tests/benchmarks/{name}.py" for name in BENCHMARKS))
SUFFIXES = (".py", ".toml", "")
SKIPPED = ("__pycache__",)


def write_pack(path: Path) -> int:
    """Write the pack; return its size in bytes. Raises SystemExit if it is too large."""
    with tarfile.open(path, "w:gz") as pack:
        for source in packed_files():
            pack.add(source, f"troupe-gpu/{source.relative_to(ROOT).as_posix()}")
        text = (commit() or "unknown").encode()
        entry = tarfile.TarInfo(f"troupe-gpu/{COMMIT_FILE.name}")
        entry.size = len(text)
        pack.addfile(entry, io.BytesIO(text))
    size = path.stat().st_size
    if size > LIMIT:
        raise SystemExit(f"{path} has {size:,} bytes; the limit is {LIMIT:,}")
    return size


def packed_files() -> Iterator[Path]:
    """The files of a pack."""
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.is_file() and path.suffix in SUFFIXES and not set(path.parts) & set(SKIPPED):
                yield path
    yield from (ROOT / name for name in FILES)


if __name__ == "__main__":
    target = Path(sys.argv[1])
    print(f"{target}: {write_pack(target):,} bytes")
