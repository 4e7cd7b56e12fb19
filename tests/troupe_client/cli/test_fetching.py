"""Archives with members outside the folder are refused before extraction."""

import io
import tarfile
from pathlib import Path

import pytest

from troupe_client.cli.fetching import _extract


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("../outside", tarfile.REGTYPE),
        ("/etc/outside", tarfile.REGTYPE),
        ("made/link", tarfile.SYMTYPE),
        ("made/device", tarfile.CHRTYPE),
    ],
)
def test_archive_members_outside_the_folder_are_refused(tmp_path: Path, name: str, kind: bytes) -> None:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        member = tarfile.TarInfo(name)
        member.type, member.linkname = kind, "/etc"
        archive.addfile(member)
    packed.seek(0)
    folder = tmp_path / "inside"
    folder.mkdir()
    with (
        tarfile.open(fileobj=packed, mode="r|") as archive,
        pytest.raises(tarfile.TarError, match="not a plain file"),
    ):
        _extract(archive, folder)
    assert not list(folder.iterdir()) and not (tmp_path / "outside").exists()
