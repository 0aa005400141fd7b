from sandbox_contract.problems import ErrorCode
from sandbox_service.errors import NodeFullError, ServiceError
from sandbox_service.fleet.refusing_nodes import RefusingNodes

NO_IMAGE = ServiceError(ErrorCode.IMAGE_MISSING, "build it")


def test_a_node_that_refused_comes_last_for_a_while() -> None:
    nodes = RefusingNodes(avoided_s=60)
    nodes.note("code", "a", NO_IMAGE, now=100)
    assert nodes.put_last("code", ["a", "c", "b"], now=159) == ["c", "b", "a"]
    assert nodes.put_last("code", ["a", "c", "b"], now=160) == ["a", "c", "b"]
    assert nodes.put_last("bfcl", ["a", "b"], now=101) == ["a", "b"]


def test_a_node_that_has_created_an_instance_has_image_and_room() -> None:
    nodes = RefusingNodes(avoided_s=60)
    nodes.note("code", "a", NO_IMAGE, now=100)
    nodes.note("code", "b", NO_IMAGE, now=100)
    nodes.forget("code", "a")
    assert nodes.put_last("code", ["b", "a"], now=101) == ["a", "b"]


def test_a_full_disk_is_full_for_all_environments() -> None:
    nodes = RefusingNodes(avoided_s=60)
    nodes.note("code", "a", NodeFullError("no space"), now=100)
    assert nodes.put_last("bfcl", ["a", "b"], now=101) == ["b", "a"]
    nodes.forget("bfcl", "a")
    assert nodes.put_last("code", ["a", "b"], now=101) == ["a", "b"]
