"""Files that a power failure leaves whole."""

from pathlib import Path

import pytest

from trainer.durable_files import sync_files, write_durably


def test_the_content_is_on_the_disk_before_the_name_and_the_name_before_the_return(tmp_path: Path) -> None:
    file, seen = tmp_path / "note.json", []

    def sync(descriptor: int) -> None:
        (there,) = tmp_path.iterdir()
        seen.append((Path(f"/proc/self/fd/{descriptor}").readlink(), there.name, there.read_text()))

    write_durably(file, "content", sync)
    draft = tmp_path / "note.json.draft"
    assert seen == [(draft, draft.name, "content"), (tmp_path, file.name, "content")]


@pytest.mark.parametrize("content", ["näch", b"\x00\xff"], ids=["text", "bytes"])
def test_a_file_is_replaced(tmp_path: Path, content: str | bytes) -> None:
    file = tmp_path / "note"
    file.write_text("before")
    write_durably(file, content)
    assert file.read_bytes() == (content.encode() if isinstance(content, str) else content)
    assert list(tmp_path.iterdir()) == [file]


def test_a_file_that_cannot_be_written_stays_as_it_was(tmp_path: Path) -> None:
    file = tmp_path / "note"
    file.write_text("before")

    def full(_: int) -> None:
        raise OSError("no space left on device")

    with pytest.raises(OSError, match="no space"):
        write_durably(file, "after", full)
    assert file.read_text() == "before"


def test_a_file_system_that_does_not_synchronise_folders_is_no_error(tmp_path: Path) -> None:
    def files_alone(descriptor: int) -> None:
        if Path(f"/proc/self/fd/{descriptor}").readlink().is_dir():
            raise OSError("invalid argument")

    write_durably(tmp_path / "note", "content", files_alone)
    assert (tmp_path / "note").read_text() == "content"


def test_files_of_a_folder_are_on_the_disk_before_their_names(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / name).write_text(name)
    (tmp_path / "folder").mkdir()
    seen: list[Path] = []
    sync_files(tmp_path, lambda descriptor: seen.append(Path(f"/proc/self/fd/{descriptor}").readlink()))
    assert (set(seen[:-1]), seen[-1]) == ({tmp_path / "a", tmp_path / "b"}, tmp_path)
