"""Ground truth leaves neither by what an episode tells nor by what agent code can reach."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from sandbox_conformance.actions import idle, say
from sandbox_conformance.subject import Subject, leaves

if TYPE_CHECKING:
    from collections.abc import Iterable

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(600)]

_LONG_ENOUGH = 8
"""Characters of a string that does not turn up by chance."""

_IN_BOXES = ("/opt/environment", "/mnt/environment")
"""The folders of an environment's packages and data in a container and in a process box."""

_PROBE = """\
import os, sys
secrets = [text.encode() for text in {secrets!r}]
found = []
open('canary.txt', 'w').write('a bird that is found')
def look(path):
    try:
        data = open(path, 'rb').read(4_000_000)
    except OSError:
        return
    if b'a bird that is found' in data and path.endswith('canary.txt'):
        found.append('the canary')
    found.extend(path for secret in secrets if secret in data)
for top in {folders!r} + [path for path in sys.path if path]:
    for folder, _, names in os.walk(top):
        for name in names:
            look(os.path.join(folder, name))
for pid in filter(str.isdigit, os.listdir('/proc')):
    for name in ('environ', 'cmdline', 'fd/0', 'fd/3', 'fd/4', 'fd/5', 'fd/6'):
        if os.path.isfile(f'/proc/{{pid}}/{{name}}'):
            look(f'/proc/{{pid}}/{{name}}')
for folder in {doors!r}:
    try:
        found.extend(os.listdir(folder))
    except OSError:
        continue
print('found', sorted(set(found)))
"""


def secrets_of(subject: Subject, task_id: str, asked: Iterable[str] = ()) -> set[str]:
    """Strings that only the grader knows: those of the grading that no part of the task holds."""
    payload = subject.catalog.payload(task_id)
    public = [*leaves(payload.task), *leaves(subject.described.model_dump(mode="json")), task_id, *asked]
    return {
        text
        for text in leaves(payload.grading)
        if len(text) >= _LONG_ENOUGH and not any(text in known for known in public)
    }


def check_told_nothing(secrets: set[str], told: Iterable[str]) -> None:
    for text in told:
        assert [secret for secret in secrets if secret in text] == []


async def test_an_episode_tells_nothing_of_the_ground_truth(subject: Subject) -> None:
    action = idle(await subject.tools())
    looked_for = 0
    for split in subject.described.splits:
        for task_id in subject.sample(split.name, 3):
            async with subject.episode(task_id) as episode:
                created = [episode.observation.model_dump(), episode.info]
                # An answer may be words of the question, or of the tools that it is asked with.
                asked = [each.content or "" for each in episode.observation.messages if each.role == "user"]
                asked += leaves([tool.model_dump() for tool in episode.tools])
                secrets = secrets_of(subject, task_id, asked)
                looked_for += len(secrets)
                stepped = (await episode.step(action)).model_dump()
                graded = (await episode.evaluate()).model_dump()
            history = (await subject.client.trajectory(episode.instance_id)).model_dump()
            check_told_nothing(secrets, leaves([created, stepped, graded, history]))
    if not looked_for:
        pytest.skip(f"the grading of {subject.name} holds no words of its own")


async def test_a_verdict_does_not_name_the_solution(subject: Subject) -> None:
    solution = {text for text in leaves(subject.reference()) if len(text) >= 5 * _LONG_ENOUGH}
    async with subject.episode() as episode:
        opening = list(leaves(episode.observation.model_dump()))
        secrets = {text for text in solution if not any(text in known for known in opening)}
        check_told_nothing(secrets, leaves((await episode.evaluate()).details))


async def test_agent_code_cannot_find_the_ground_truth(subject: Subject) -> None:
    """Neither in files, of process boxes their own only, nor in what the kernel tells of processes."""
    if not subject.described.capabilities.agent_code:
        pytest.skip(f"agents of {subject.name} run no code")
    if "python" not in subject.described.action_format:
        pytest.skip(f"agents of {subject.name} run no Python")
    secrets, provisions = sorted(secrets_of(subject, subject.task)), subject.catalog.spec.provisions
    doors = [] if provisions is None else [str(provisions.folder), str(provisions.data), *_IN_BOXES]
    assert secrets or doors
    folders = [".", "/workspace", "/tmp", "/opt", "/home", "/root", "/run", "/dev/shm", "/var"]
    if subject.kind == "process":
        folders = [".", "/dev/shm"]
    # In hexadecimal it neither holds what it looks for nor meets checks of what a cell may say.
    hidden = _PROBE.format(secrets=secrets, folders=folders, doors=doors).encode().hex()
    probe = say(f"```python\nexec(bytes.fromhex('{hidden}').decode())\n```")
    async with subject.episode() as episode:
        for _ in range(2):
            answer = (await episode.step(probe)).observation.messages[0].content
            assert "found ['the canary']" in str(answer)
            await episode.evaluate()
