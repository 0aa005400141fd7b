from sandbox_service.environments.search_qa.box.passages import Passage
from sandbox_service.environments.search_qa.box.search import SearchIndex, load_index

PASSAGES = [
    Passage(0, "Velmo", "The Velmo is a river. The river is long."),
    Passage(1, "Dosbrun", "Dosbrun lies on a river."),
    Passage(2, "Ada", "Ada was born in Dosbrun."),
    Passage(3, "Copy", "Dosbrun lies on a river."),
]


def numbers(query: str, count: int = 4) -> list[int]:
    return [each.number for each in SearchIndex(PASSAGES).find(query, count)]


def test_a_passage_with_a_rare_word_of_the_query_comes_before_those_with_common_ones() -> None:
    assert numbers("is the river called Velmo")[0] == 0
    assert numbers("Where was Ada born?")[0] == 2


def test_a_passage_in_which_a_word_is_more_frequent_comes_first() -> None:
    assert numbers("dosbrun")[0] == 1


def test_a_query_without_known_words_finds_nothing() -> None:
    assert numbers("zebra ...") == numbers("") == []


def test_no_more_passages_are_found_than_asked_for() -> None:
    assert len(numbers("river", 2)) == 2


def test_the_same_query_finds_the_same_passages_in_the_same_order() -> None:
    query = "the mayor of the city in which the author was born"
    assert load_index().find(query, 10) == load_index().find(query, 10)


def test_the_second_half_of_an_endless_query_is_not_read() -> None:
    assert numbers("zebra " * 1000 + "velmo") == []
