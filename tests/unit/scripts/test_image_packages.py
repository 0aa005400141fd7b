"""Packages in the file system of an image."""

from __future__ import annotations

import io
import tarfile

from scripts.image_packages import DEB, PYPI, ImagePackage, image_packages

STATUS = """\
Package: bash
Status: install ok installed
Architecture: amd64
Version: 5.2.15-2+b7
Description: a shell
 which has a second line

Package: removed
Status: deinstall ok config-files
Architecture: amd64
Version: 1
"""
BOOKWORM = 'PRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\nID=debian\nVERSION_ID="12"\n'
SITE = "usr/local/lib/python3.11/dist-packages"


def packages(files: dict[str, str]) -> dict[ImagePackage, list[str]]:
    """The packages in the tar of an image with these files."""
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w") as archive:
        for path, text in files.items():
            entry = tarfile.TarInfo(path)
            entry.size = len(text.encode())
            archive.addfile(entry, io.BytesIO(text.encode()))
    target.seek(0)
    return image_packages(target)


def test_installed_packages_of_debian_are_found_with_their_system() -> None:
    found = packages({"usr/lib/os-release": BOOKWORM, "var/lib/dpkg/status": STATUS})
    assert found == {ImagePackage(DEB, "bash", "5.2.15-2+b7", "amd64", "debian-12"): ["/var/lib/dpkg/status"]}


def test_the_order_of_the_files_does_not_matter() -> None:
    assert packages({"var/lib/dpkg/status": STATUS, "usr/lib/os-release": BOOKWORM}) == packages(
        {"./usr/lib/os-release": BOOKWORM, "./var/lib/dpkg/status": STATUS}
    )


def test_a_record_beside_dpkgs_list_counts() -> None:
    record = "Package: runsc\nVersion: 0.0~20240729.0-4+b7\nArchitecture: amd64\n"
    (found,) = packages({"var/lib/dpkg/status.d/runsc": record, "var/lib/dpkg/status.d/runsc.md5sums": "0 a"})
    assert (found.name, found.version) == ("runsc", "0.0~20240729.0-4+b7")


def test_a_package_of_two_systems_in_one_image_is_one_with_two_places() -> None:
    system = {"usr/lib/os-release": BOOKWORM, "var/lib/dpkg/status": STATUS}
    (places,) = packages({**system, **{f"opt/root/{path}": text for path, text in system.items()}}).values()
    assert places == ["/opt/root/var/lib/dpkg/status", "/var/lib/dpkg/status"]


def test_systems_of_two_releases_are_told_apart() -> None:
    newer = BOOKWORM.replace("12", "13")
    found = packages(
        {
            "usr/lib/os-release": BOOKWORM,
            "var/lib/dpkg/status": STATUS,
            "opt/root/usr/lib/os-release": newer,
            "opt/root/var/lib/dpkg/status": STATUS,
        }
    )
    assert {package.distribution for package in found} == {"debian-12", "debian-13"}


def test_packages_of_python_are_found_wherever_they_are() -> None:
    text = "Name: PyYAML\nVersion: 6.0.3\nLicense-Expression: MIT\n\nA description: with a colon\n"
    found = packages(
        {
            f"{SITE}/pyyaml-6.0.3.dist-info/METADATA": text,
            "opt/environment/packages/pyyaml-6.0.3.dist-info/METADATA": text,
            f"{SITE}/broken.dist-info/METADATA": "Name: broken\n",
        }
    )
    assert found == {
        ImagePackage(PYPI, "PyYAML", "6.0.3", licence="MIT"): [
            "/opt/environment/packages/pyyaml-6.0.3.dist-info",
            f"/{SITE}/pyyaml-6.0.3.dist-info",
        ]
    }


def test_a_system_without_a_name_gives_packages_without_one() -> None:
    (found,) = packages({"var/lib/dpkg/status": STATUS})
    assert found.distribution == ""
