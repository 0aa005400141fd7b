import pytest

from sandbox_service.environments.text_to_sql.box.comparison import same_rows

ROWS = [["a", 1], ["b", 2.5], [None, 3]]


def test_the_order_of_rows_counts_only_where_it_is_asked_for() -> None:
    turned = list(reversed(ROWS))
    assert same_rows(turned, ROWS, ordered=False)
    assert not same_rows(turned, ROWS, ordered=True)
    assert same_rows(ROWS, [tuple(row) for row in ROWS], ordered=True)


@pytest.mark.parametrize(
    "found",
    [
        ROWS[:2],
        [*ROWS, ROWS[0]],
        [["a", 1], ["a", 1], [None, 3]],
        [[1, "a"], [2.5, "b"], [3, None]],
        [["a"], ["b"], [None]],
        [["a", 1, 0], ["b", 2.5, 0], [None, 3, 0]],
        [["a", "1"], ["b", 2.5], [None, 3]],
        [["A", 1], ["b", 2.5], [None, 3]],
        [["a", 1], ["b", 2.51], [None, 3]],
        [["a", 1], ["b", 2.5], [0, 3]],
    ],
)
def test_other_rows_cells_or_columns_are_not_the_same(found: list[list[object]]) -> None:
    assert not same_rows(found, ROWS, ordered=False)


def test_sums_in_another_order_and_whole_numbers_in_another_type_are_the_same() -> None:
    assert same_rows([[0.1 + 0.2, 2]], [[0.3, 2.0]], ordered=False)
    assert same_rows([[1e9 + 1e-3]], [[1e9]], ordered=False)
