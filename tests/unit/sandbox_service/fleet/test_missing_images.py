from sandbox_service.fleet.missing_images import MissingImages


def test_a_supervisor_without_the_image_comes_last_for_a_while() -> None:
    missing = MissingImages(avoided_s=60)
    missing.note("code", "a", now=100)
    assert missing.put_last("code", ["a", "c", "b"], now=159) == ["c", "b", "a"]
    assert missing.put_last("code", ["a", "c", "b"], now=160) == ["a", "c", "b"]
    assert missing.put_last("bfcl", ["a", "b"], now=101) == ["a", "b"]


def test_a_supervisor_that_has_created_an_instance_has_the_image() -> None:
    missing = MissingImages(avoided_s=60)
    missing.note("code", "a", now=100)
    missing.note("code", "b", now=100)
    missing.forget("code", "a")
    assert missing.put_last("code", ["b", "a"], now=101) == ["a", "b"]
