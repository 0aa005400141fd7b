"""The images that the list shows."""

from __future__ import annotations

import pytest

from sandbox_service.sandboxes.docker_images import KeptImage
from sandbox_service.sandboxes.image_labels import image_labels
from service_cli.commands.images_list import is_of_the_project

DIGEST = "0123456789abcdef"


def image(reference: str, *, labelled: bool) -> KeptImage:
    labels = image_labels("training-sandbox", "The service") if labelled else {"maintainer": "another"}
    return KeptImage(reference, own_bytes=1, created=0.0, all_bytes=2, labels=labels)


@pytest.mark.parametrize(
    ("reference", "labelled", "expected"),
    [
        ("registry.example/any-name:1", True, True),
        ("<none>:<none>", True, False),
        (f"team/sandbox-code:echo-{DIGEST}", False, True),
        (f"other/sandbox-code:echo-{DIGEST}", False, False),
        ("postgres:17", False, False),
    ],
)
def test_images_with_the_projects_label_are_listed_and_older_ones_by_their_name(
    reference: str, labelled: bool, expected: bool
) -> None:
    assert is_of_the_project(image(reference, labelled=labelled), "team/") is expected
