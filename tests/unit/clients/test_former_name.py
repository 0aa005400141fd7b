"""The package `clients`, which is now `sandbox_client`."""

import subprocess
import sys

import sandbox_client


def run(code: str, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *options, "-c", code], capture_output=True, text=True, check=False)


def test_the_former_name_warns_with_the_new_one_at_the_line_of_the_import() -> None:
    done = run("pass\nimport clients", "-W", "always")
    assert done.returncode == 0
    assert "<string>:2: DeprecationWarning" in done.stderr
    assert "import sandbox_client" in done.stderr


def test_it_has_the_same_classes_not_copies() -> None:
    done = run(
        "import clients, sandbox_client, clients.errors\n"
        "from clients.async_client import AsyncSandboxClient\n"
        "from sandbox_client.errors import NotFoundError\n"
        "print(AsyncSandboxClient is sandbox_client.AsyncSandboxClient)\n"
        "print(clients.errors.NotFoundError is NotFoundError, clients.NotFoundError is NotFoundError)\n"
        "print(*clients.__all__)\n"
    )
    assert done.stdout.split() == ["True", "True", "True", *sandbox_client.__all__], done.stderr


def test_the_packages_beside_it_are_not_its_parts() -> None:
    assert "No module named 'clients.sandbox_client'" in run("import clients.sandbox_client").stderr
