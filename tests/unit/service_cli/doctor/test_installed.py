from service_cli.doctor.installed import installed_version, pinned_versions, read_pins


def test_pins_are_those_of_one_extra() -> None:
    requirements = [
        "pydantic==2.14.3",
        'ray[serve]==2.60.0; extra == "service"',
        "docker>=7; extra == 'service'",
        'torch==2.13.0; extra == "trainer"',
    ]
    assert read_pins(requirements, "service") == {"ray": "2.60.0"}


def test_the_installed_product_pins_ray_and_has_it_in_that_version() -> None:
    assert pinned_versions("service")["ray"] == installed_version("ray")


def test_a_package_that_is_not_installed_has_no_version() -> None:
    assert installed_version("no-such-package-of-ours") is None
