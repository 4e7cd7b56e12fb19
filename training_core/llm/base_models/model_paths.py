"""Resolution of a model's name in a config to its folder. No torch here."""

from pathlib import Path

from training_core.config.permitted import PLAIN_NAME, checkpoint_below_home
from training_core.errors import ModelError
from training_core.served import served


def model_folder(name: str, home: Path, *, anywhere: bool | None = None) -> Path | None:
    """The folder of a model's name; None if it is not a local folder, such as a hub id.

    Tries a path, then a model below <home>/models by its name, then a policy of a checkpoint as
    runs/RUN/checkpoints/.... With `anywhere` (the default if no server started this process) a relative path is first
    resolved against the working folder.

    Raises ModelError if a hub id also matches a folder in the working folder.
    """
    if anywhere is None:
        anywhere = not served()
    path = Path(name).expanduser() if anywhere else Path(name)
    if path.is_absolute() or (anywhere and path.is_dir()):
        return path if path.is_dir() else None
    for folder in _below(name, home):
        if folder.is_dir():
            return folder
    if not anywhere and path.is_dir():
        raise ModelError(
            f"the model {name!r} would be read from the working folder; give it another name in TROUPE_HOME/models"
        )
    return None


def _below(name: str, home: Path) -> list[Path]:
    """Paths below the data folder that a relative name may refer to."""
    own = name.removeprefix("models/")
    if PLAIN_NAME.fullmatch(own):
        return [home / "models" / own]
    return [home / name] if checkpoint_below_home(name) else []
