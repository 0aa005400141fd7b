"""Push to a repository on the Hugging Face hub, or on a compatible one (``HF_ENDPOINT``)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from huggingface_hub import HfApi

if TYPE_CHECKING:
    from concurrent.futures import Future


class HuggingFaceHub:
    """One repository, created with the first push. The login is that of ``hf auth login`` or ``HF_TOKEN``."""

    def __init__(self, repository: str, *, private: bool, endpoint: str | None = None) -> None:
        self._repository = repository
        self._private = private
        self._api = HfApi(endpoint=endpoint)

    def push(self, folder: Path, message: str) -> Future[object]:
        """Push folders one after another, in the order of the calls."""
        return self._api.run_as_future(self._push, folder, message)

    def _push(self, folder: Path, message: str) -> object:
        self._api.create_repo(self._repository, private=self._private, exist_ok=True)
        return self._api.upload_folder(repo_id=self._repository, folder_path=folder, commit_message=message)
