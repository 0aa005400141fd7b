import pytest

from sandbox_service.environments.shared.box.editor import MAX_FILE_BYTES, EditorError, edit
from tests.harness.agent import FakeAgent


def write(agent: FakeAgent, text: str, path: str = "a.txt") -> None:
    agent.write_file(path, text.encode())


def read(agent: FakeAgent, path: str = "a.txt") -> str:
    return agent.read_file(path, 1 << 20).decode()


def do(agent: FakeAgent, command: str, path: str = "a.txt", **arguments: object) -> str:
    return edit(agent, {"command": command, "path": path, **arguments})


def test_view_numbers_the_lines(agent: FakeAgent) -> None:
    write(agent, "one\ntwo\n")
    assert do(agent, "view") == "     1\tone\n     2\ttwo"


@pytest.mark.parametrize(("given", "lines"), [([2, 3], "bc"), ([3, -1], "cd"), ([4, 99], "d"), ([1, 1], "a")])
def test_view_range_selects_lines(agent: FakeAgent, given: list[int], lines: str) -> None:
    write(agent, "a\nb\nc\nd\n")
    shown = do(agent, "view", view_range=given)
    assert "".join(line.split("\t")[1] for line in shown.split("\n")) == lines


@pytest.mark.parametrize("given", [[0, 1], [3, 2], [5, 6], [5, -1], [1, 0]])
def test_view_range_outside_the_file_is_told(agent: FakeAgent, given: list[int]) -> None:
    write(agent, "a\nb\nc\nd\n")
    with pytest.raises(EditorError, match="lines 1 to 4"):
        do(agent, "view", view_range=given)


def test_view_lists_a_directory_two_levels_deep_without_hidden_files(agent: FakeAgent) -> None:
    for path in ("a.txt", "d/e.txt", "d/f/g.txt", ".hidden", "d/.cache/x"):
        write(agent, "12", path)
    assert do(agent, "view", ".") == "./\na.txt  (2 bytes)\nd/\nd/e.txt  (2 bytes)\nd/f/"
    assert "d/f/g.txt" in do(agent, "view", "d")


def test_a_cut_list_of_a_directory_says_so(agent: FakeAgent) -> None:
    for number in range(999):
        write(agent, "", f".git/objects/{number}")
    shown = do(agent, "view", ".")
    assert shown.split("\n")[1:] == [
        "./ has more than 1000 entries, and not all are listed: view its directories."
    ]
    assert "not all" not in do(agent, "view", ".git/objects")


def test_absolute_paths_inside_the_workspace_are_accepted(agent: FakeAgent) -> None:
    do(agent, "create", f"{agent.workspace}/b.txt", file_text="x")
    assert read(agent, "b.txt") == "x"
    assert "b.txt" in do(agent, "view", agent.workspace)


@pytest.mark.parametrize("path", ["../x", "/etc/passwd", "a/../../x"])
def test_paths_outside_the_workspace_are_refused(agent: FakeAgent, path: str) -> None:
    with pytest.raises(EditorError, match="leaves the workspace"):
        do(agent, "view", path)


def test_create_makes_directories_and_replaces(agent: FakeAgent) -> None:
    assert do(agent, "create", "d/n.txt", file_text="a\nb\n") == "Wrote d/n.txt (2 lines)."
    do(agent, "create", "d/n.txt", file_text="")
    assert read(agent, "d/n.txt") == ""


def test_str_replace_replaces_the_only_place_and_shows_it(agent: FakeAgent) -> None:
    write(agent, "".join(f"line {number}\n" for number in range(20)))
    shown = do(agent, "str_replace", old_str="line 10\n", new_str="ten\nmore\n")
    assert "    11\tten\n    12\tmore\n" in shown
    assert "line 2\n" not in shown
    assert read(agent).count("\n") == 21


def test_str_replace_without_new_text_deletes(agent: FakeAgent) -> None:
    write(agent, "abc")
    do(agent, "str_replace", old_str="b")
    assert read(agent) == "ac"


@pytest.mark.parametrize(
    ("old", "words"), [("x", "does not occur"), ("a", "occurs 2 times"), ("", "not be empty")]
)
def test_str_replace_must_be_unique(agent: FakeAgent, old: str, words: str) -> None:
    write(agent, "a b a")
    with pytest.raises(EditorError, match=words):
        do(agent, "str_replace", old_str=old, new_str="y")
    assert read(agent) == "a b a"


@pytest.mark.parametrize(
    ("before", "line", "after"),
    [
        ("a\nb\n", 0, "X\na\nb\n"),
        ("a\nb\n", 1, "a\nX\nb\n"),
        ("a\nb\n", 2, "a\nb\nX\n"),
        ("a", 1, "a\nX"),
        ("", 0, "X"),
    ],
)
def test_insert_puts_text_after_the_line(agent: FakeAgent, before: str, line: int, after: str) -> None:
    write(agent, before)
    do(agent, "insert", insert_line=line, new_str="X\n")
    assert read(agent) == after


@pytest.mark.parametrize("line", [-1, 3])
def test_insert_outside_the_file_is_told(agent: FakeAgent, line: int) -> None:
    write(agent, "a\nb\n")
    with pytest.raises(EditorError, match="within 0 and 2"):
        do(agent, "insert", insert_line=line, new_str="X")


@pytest.mark.parametrize(
    ("command", "missing"), [("create", "file_text"), ("str_replace", "old_str"), ("insert", "insert_line")]
)
def test_arguments_that_a_command_needs_are_named(agent: FakeAgent, command: str, missing: str) -> None:
    with pytest.raises(EditorError, match=missing):
        do(agent, command)


def test_missing_files_and_directories_are_told(agent: FakeAgent) -> None:
    write(agent, "x", "d/a.txt")
    with pytest.raises(EditorError, match="no file 'none'"):
        do(agent, "view", "none")
    with pytest.raises(EditorError, match="is a directory"):
        do(agent, "str_replace", "d", old_str="a")


def test_binary_and_large_files_are_told(agent: FakeAgent) -> None:
    agent.write_file("b.bin", b"\xff\xfe")
    with pytest.raises(EditorError, match="not UTF-8"):
        do(agent, "view", "b.bin")
    agent.write_file("big", b"x" * (MAX_FILE_BYTES + 1))
    with pytest.raises(EditorError, match="larger than"):
        do(agent, "view", "big")
    with pytest.raises(EditorError, match="would be larger"):
        do(agent, "create", "new", file_text="x" * (MAX_FILE_BYTES + 1))


def test_symbolic_links_are_not_followed(agent: FakeAgent) -> None:
    agent.shell("ln -s /etc/hostname link", 5)
    with pytest.raises(EditorError):
        do(agent, "view", "link")
