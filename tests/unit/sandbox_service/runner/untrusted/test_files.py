"""Workspace files: what is served, and where no path leads."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from sandbox_service.runner.untrusted.files import components
from sandbox_service.wire.frames import Op
from tests.harness.runner_box import error_code

if TYPE_CHECKING:
    from tests.harness.runner_box import RunnerBox


@pytest.fixture
def act(agent_box: RunnerBox, instance: str) -> Any:
    """Calls of the instance's agent."""
    return lambda **call: agent_box.act(instance, **call)


@pytest.mark.parametrize(
    ("path", "names"),
    [
        ("a/b.txt", ["a", "b.txt"]),
        ("./a//b/", ["a", "b"]),
        ("a/../b", ["b"]),
        ("", []),
        ("/w/7/a", ["a"]),
        ("/w/7", []),
        ("..a/b..", ["..a", "b.."]),
    ],
)
def test_a_path_within_the_workspace_is_its_names(path: str, names: list[str]) -> None:
    assert components(path, "/w/7") == names


@pytest.mark.parametrize(
    "path",
    [
        "..",
        "a/../..",
        "/etc/passwd",
        "/w/77/a",
        "/w/7/../8/a",
        "a\0b",
        "\udc00\ud800",
        "x" * 5000,
        "a/" * 200,
    ],
)
def test_a_path_that_leads_out_or_is_malformed_is_refused(path: str) -> None:
    with pytest.raises(ValueError, match="path"):
        components(path, "/w/7")


def test_many_files_are_written_at_once(act: Any) -> None:
    assert act(do="write_many", files={"a": "1", "d/b": "", "d/e/c": "three"}) == {"value": None, "steps": 1}
    assert act(do="shell", command="cat a d/b d/e/c; find . -type f | sort")["output"] == (
        "1three./a\n./d/b\n./d/e/c\n"
    )
    assert act(do="write_many", files={})["value"] is None


def test_the_first_of_many_files_that_cannot_be_written_is_named_and_ends_it(act: Any) -> None:
    refused = act(do="write_many", files={"a": "1", "a/b": "2", "c": "3"})
    assert refused["raised"] == "NotADirectoryError"
    assert "a/b" in refused["detail"]
    assert act(do="write_many", files={"c": "3", "../d": "4"})["raised"] == "ValueError"
    assert [file["path"] for file in act(do="list")["value"]] == ["a", "c"]


@pytest.mark.parametrize(
    "call",
    [
        {"do": "python", "code": "open('f', 'wb').write(bytes(17 << 20))"},
        {"do": "shell", "command": "head -c 17000000 /dev/zero > f"},
    ],
    ids=["session", "shell"],
)
def test_a_file_at_its_limit_is_an_error_and_no_death(act: Any, call: dict[str, Any]) -> None:
    told = act(**call)
    assert "File too large" in told["output"]
    assert (told["exit_code"], told["died"]) == (1, False)


def test_files_are_written_read_and_listed(act: Any) -> None:
    assert act(do="list")["value"] == []
    act(do="write", path="b/c.txt", text="hello")
    act(do="write", path="a.txt", text="one")
    act(do="write", path="a.txt", text="2")
    assert act(do="read", path="a.txt")["value"] == "2"
    assert act(do="read", path="b/c.txt", max_bytes=2)["value"] == "he"
    assert act(do="list")["value"] == [
        {"path": "a.txt", "size": 1, "is_directory": False},
        {"path": "b", "size": 0, "is_directory": True},
        {"path": "b/c.txt", "size": 5, "is_directory": False},
    ]
    assert len(act(do="list", max_entries=2)["value"]) == 2
    assert act(do="list", path="b")["value"] == [{"path": "b/c.txt", "size": 5, "is_directory": False}]


def test_the_kernels_refusals_come_back_as_exceptions(act: Any) -> None:
    act(do="shell", command="mkdir folder; mkfifo pipe; ln -s /etc/passwd out; ln -s / root; touch file")
    assert act(do="read", path="missing")["raised"] == "FileNotFoundError"
    assert act(do="read", path="folder")["raised"] == "IsADirectoryError"
    assert act(do="read", path=".")["raised"] == "IsADirectoryError"
    assert act(do="write", path="folder", text="x")["raised"] == "IsADirectoryError"
    assert act(do="read", path="pipe")["raised"] == "PermissionError"
    assert act(do="write", path="pipe", text="x")["raised"] in ("OSError", "PermissionError")
    assert act(do="read", path="file/below")["raised"] == "NotADirectoryError"
    assert act(do="read", path="../1/file")["raised"] == "ValueError"
    for path in ("out", "root/etc/passwd"):
        assert act(do="read", path=path)["raised"] in ("OSError", "NotADirectoryError")
        assert act(do="write", path=path, text="x")["raised"] in ("OSError", "NotADirectoryError")
    assert act(do="list", path="root")["raised"] in ("OSError", "NotADirectoryError")


def test_a_symbolic_link_is_listed_and_never_followed(act: Any) -> None:
    act(do="shell", command="ln -s / everything")
    assert [entry["path"] for entry in act(do="list")["value"]] == ["everything"]


def test_a_workspace_replaced_by_a_link_is_not_entered(act: Any) -> None:
    workspace = act(do="workspace")["workspace"]
    act(
        do="shell",
        command=f"rm -r {workspace}; mkdir {workspace}.other; echo x > {workspace}.other/x; "
        f"ln -s {workspace}.other {workspace}",
    )
    # The link is removed, and an empty directory is in its place.
    assert act(do="read", path="x")["raised"] == "FileNotFoundError"
    assert act(do="shell", command=f"test -L {workspace} || ls -A")["output"] == ""
    act(do="shell", command=f"rm -r {workspace}.other")


def test_everything_of_an_agent_is_removed_where_it_has_an_own_user_id(act: Any, drop: bool) -> None:
    workspace = act(do="workspace")["workspace"]
    folder = workspace.rpartition("/")[0]
    act(do="shell", command=f"mkdir -p a/b/c; chmod 0 a/b; touch {folder}/beside")
    removed = act(do="remove", folders=[folder])
    assert removed.get("raised") == (None if drop else "PermissionError")
    left = act(do="shell", command=f"ls -A; cd {folder}; ls -Ad beside")["output"]
    assert ("beside\n" in left, "a\n" in left) == (not drop, not drop)
    if not drop:
        act(do="shell", command=f"chmod 700 a/b; rm {folder}/beside")


def test_files_written_by_the_world_belong_to_the_agent(act: Any) -> None:
    act(do="write", path="input.csv", text="a,b")
    assert act(do="shell", command="echo more >> input.csv && cat input.csv")["output"] == "a,bmore\n"


def test_file_frames_serve_the_files_of_an_instance(agent_box: RunnerBox, instance: str) -> None:
    written = agent_box.request(Op.FILE_WRITE, instance, meta={"path": "d/f"}, body=b"\x00\xff" * 10)
    assert written.op is Op.REPLY
    read = agent_box.request(Op.FILE_READ, instance, meta={"path": "d/f", "max_bytes": 20})
    assert read.body == b"\x00\xff" * 10
    listed = agent_box.request(Op.FILE_LIST, instance, meta={"path": "."})
    assert [entry["path"] for entry in json.loads(listed.body)] == ["d", "d/f"]
    assert "truncated" not in listed.meta


@pytest.mark.parametrize(
    ("folder", "files", "most"),
    [(".", 10_001, 10_000), ("/".join(["d" * 240] * 6), 3_000, 2_999)],
    ids=["many entries", "long paths"],
)
def test_a_listing_that_is_cut_says_so(
    agent_box: RunnerBox, instance: str, folder: str, files: int, most: int
) -> None:
    agent_box.act(
        instance, do="shell", command=f"mkdir -p {folder} && cd {folder} && seq {files} | xargs touch"
    )
    listed = agent_box.request(Op.FILE_LIST, instance, meta={"path": "."})
    assert listed.meta["truncated"] is True
    assert 0 < len(json.loads(listed.body)) <= most
    again = agent_box.request(Op.FILE_LIST, instance, meta={"path": "."})
    assert again.body == listed.body


@pytest.mark.parametrize(
    ("op", "path", "code"),
    [
        (Op.FILE_READ, "missing", "file_not_found"),
        (Op.FILE_READ, "..", "invalid_path"),
        (Op.FILE_READ, "/etc/passwd", "invalid_path"),
        (Op.FILE_READ, ".", "invalid_path"),
        (Op.FILE_READ, "big", "file_too_large"),
        (Op.FILE_WRITE, "a/../../b", "invalid_path"),
        (Op.FILE_LIST, "missing", "file_not_found"),
    ],
)
def test_file_frames_answer_refusals_with_codes(
    agent_box: RunnerBox, instance: str, op: Op, path: str, code: str
) -> None:
    agent_box.request(Op.FILE_WRITE, instance, meta={"path": "big"}, body=b"x" * 11)
    assert error_code(agent_box.request(op, instance, meta={"path": path, "max_bytes": 10})) == code


def test_a_file_of_megabytes_passes_whole(agent_box: RunnerBox, instance: str) -> None:
    data = bytes(range(256)) * 16_384
    agent_box.request(Op.FILE_WRITE, instance, meta={"path": "big"}, body=data)
    assert agent_box.request(Op.FILE_READ, instance, meta={"path": "big", "max_bytes": 1 << 23}).body == data
    too_long = agent_box.request(Op.FILE_WRITE, instance, meta={"path": "long"}, body=b"x" * (17 << 20))
    assert error_code(too_long) == "file_too_large"


def test_a_listing_is_complete_while_the_agent_renames_and_removes(act: Any) -> None:
    churn = (
        "import os, threading\n"
        "os.makedirs('kept'); open('kept/file', 'w').close(); going = True\n"
        "def churn():\n"
        "    while going:\n"
        "        for name in ('a', 'b', 'c'):\n"
        "            os.makedirs(name + '/below'); open(name + '/file', 'w').close()\n"
        "            os.rename(name, 'moved'); os.remove('moved/file')\n"
        "            os.rmdir('moved/below'); os.rmdir('moved')\n"
        "threading.Thread(target=churn, daemon=True).start()"
    )
    act(do="python", code=churn)
    for _ in range(150):
        listed = act(do="list")
        assert "raised" not in listed, listed
        assert {"kept", "kept/file"} <= {file["path"] for file in listed["value"]}
    act(do="python", code="going = False")


def test_a_folder_that_is_closed_to_its_owner_is_listed_without_its_files(act: Any) -> None:
    act(do="shell", command="mkdir -p closed open; touch closed/in open/in; chmod 0 closed")
    names = {file["path"] for file in act(do="list")["value"]}
    act(do="shell", command="chmod 700 closed")
    assert {"closed", "open", "open/in"} <= names
