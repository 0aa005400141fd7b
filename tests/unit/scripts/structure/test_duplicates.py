"""Pieces of code that count as duplicates."""

from textwrap import dedent

from scripts.structure.duplicates import find_duplicates

PIECE = '''
def add(rows, start=0):
    """Add up."""
    total = start
    # one by one
    for row in rows:
        if row.price > 0:
            total += row.price * row.count

    print(f"total {total}", len(rows))
    return {"total": total}
'''
RENAMED = PIECE.replace("row", "coin").replace("total", "sum_").replace("Add up", "Count")


def source(text, before=""):
    return before + dedent(text).lstrip("\n")


def test_a_copy_is_found_with_its_length_and_places():
    (found,) = find_duplicates({"a.py": source(PIECE), "b.py": source(PIECE, "X = 1\nY = [X]\n")})
    assert (found.lines, found.first, found.second, found.same_text) == (7, "a.py:1", "b.py:3", True)


def test_a_copy_with_other_names_and_texts_is_found_and_marked():
    (found,) = find_duplicates({"a.py": source(PIECE), "b.py": source(RENAMED)})
    assert (found.lines, found.same_text) == (7, False)


def test_a_copy_within_one_file_is_found():
    (found,) = find_duplicates({"a.py": source(PIECE) + source(RENAMED)})
    assert (found.first, found.second) == ("a.py:1", "a.py:11")


def test_other_code_is_no_copy():
    other = PIECE.replace("+=", "-=").replace("for row in rows", "while rows")
    assert find_duplicates({"a.py": source(PIECE), "b.py": source(other)}) == []


def test_five_equal_lines_are_too_few():
    short = "\n".join(source(PIECE).splitlines()[:7])
    assert find_duplicates({"a.py": short, "b.py": short}) == []


def test_lists_of_fields_and_imports_are_no_copies():
    fields = "class Row:\n" + "".join(f"    field_{number}: dict[str, int] = {{}}\n" for number in range(12))
    imports = "".join(f"from shop.part_{number} import a, b, c, d\n" for number in range(12))
    text = imports + fields
    assert find_duplicates({"a.py": text, "b.py": text}) == []
