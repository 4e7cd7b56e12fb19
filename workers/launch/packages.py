"""Our code as one archive for a cluster that does not see this checkout: training_core and workers, nothing else."""

import hashlib
import io
import zipfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from workers.launch.command import ROOT

PACKAGES = ("training_core", "workers")
SUFFIXES = (".py", ".toml", ".json", ".txt", ".typed")
_EPOCH = (1980, 1, 1, 0, 0, 0)


@dataclass(frozen=True)
class CodePackage:
    """A zip archive named after its content, so that the same code is sent once."""

    name: str
    content: bytes


@cache
def code_package() -> CodePackage:
    """The archive; the same bytes for the same files. The files are read once per process."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in _files():
            entry = zipfile.ZipInfo(path.relative_to(ROOT).as_posix(), _EPOCH)
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, path.read_bytes(), zipfile.ZIP_DEFLATED)
    content = buffer.getvalue()
    return CodePackage(f"_ray_pkg_{hashlib.sha256(content).hexdigest()[:32]}.zip", content)


def _files() -> list[Path]:
    return sorted(path for name in PACKAGES for path in (ROOT / name).rglob("*") if path.suffix in SUFFIXES)
