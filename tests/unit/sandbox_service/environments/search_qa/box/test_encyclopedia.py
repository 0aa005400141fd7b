from collections import Counter

from sandbox_service.environments.search_qa.box.encyclopedia import Entity, load_world
from sandbox_service.environments.search_qa.box.passages import load_passages
from sandbox_service.environments.search_qa.box.search import load_index


def test_there_are_thousands_of_passages_with_different_texts() -> None:
    passages = load_passages()
    assert len(passages) >= 2000
    assert [each.number for each in passages] == list(range(len(passages)))
    assert len({each.text for each in passages}) > 0.99 * len(passages)


def test_no_two_entities_have_one_name() -> None:
    names = Counter(each.name.lower() for each in load_world())
    assert [name for name, count in names.items() if count > 1] == []


def test_no_fact_leads_from_one_split_into_another() -> None:
    for entity in load_world():
        related = [value for value in entity.facts.values() if isinstance(value, Entity)]
        assert {each.split for each in related} <= {entity.split}


def test_every_fact_is_said_in_a_passage_under_the_title_of_its_entity() -> None:
    texts: dict[str, str] = {}
    for passage in load_passages():
        texts[passage.title.lower()] = texts.get(passage.title.lower(), "") + passage.text.lower()
    for entity in load_world():
        for relation in entity.facts:
            assert entity.value(relation).lower() in texts[entity.name.lower()], (entity.name, relation)


def test_a_search_for_a_name_finds_the_article() -> None:
    for entity in load_world()[::37]:
        found = load_index().find(entity.name, 3)
        assert entity.name.lower() in {passage.title.lower() for passage in found}, entity.name
