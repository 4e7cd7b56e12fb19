"""Uploads to the Hugging Face hub with its own client, which reads HF_TOKEN and HF_ENDPOINT."""

from pathlib import Path

from training_core.errors import TroupeError


def push_folder(folder: Path, repository: str, message: str, *, private: bool) -> str:
    """Upload a model's folder as one commit, create the repository if there is none, and return its address.

    Raises TroupeError if the hub refuses, and without `huggingface_hub`.
    """
    try:
        from huggingface_hub import HfApi
        from huggingface_hub.errors import HfHubHTTPError, HFValidationError
    except ImportError as error:
        raise TroupeError("pushing needs the hub's client: pip install huggingface_hub") from error
    import httpx

    hub = HfApi()
    try:
        hub.create_repo(repository, private=private, exist_ok=True)
        hub.upload_folder(repo_id=repository, folder_path=folder, commit_message=message)
    except (HFValidationError, HfHubHTTPError, httpx.HTTPError, OSError, ValueError) as error:
        raise TroupeError(
            f"{hub.endpoint} refuses {repository}: {error}; check HF_TOKEN, which needs write access, and the name"
        ) from error
    return f"{hub.endpoint}/{repository}"
