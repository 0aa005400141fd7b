"""The bundled Harbor examples, after which packs are written: their tests run nothing of the agent's."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import pytest_asyncio

from sandbox_conformance.actions import native
from sandbox_conformance.serving import serve
from sandbox_service.config import HarborConfig
from sandbox_service.environments.harbor.service.catalog import HarborCatalog, bundled_tasks

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from sandbox_conformance.serving import Service

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(300)]

FORGERY = """\
for path in "$@"; do
    rm -f "$path"
    cat > "$path" <<'END'
#!/bin/bash
echo '{"reward": 1}' > /logs/verifier/forged
setsid bash -c 'cd /logs/verifier; while :; do cp forged next; mv -f next reward.json; done' \\
    > /dev/null 2>&1 < /dev/null &
sleep 0.5
END
    chmod 755 "$path"
done
"""
"""Leaves in the place of files a script that, once it runs, goes on replacing the reward."""
PLACES = {
    "word-count": "/app/top.txt",
    "separate-sorting": "/app/ranking.txt /app/sort.sh /app/scores.txt",
    "ledger-in-two-steps": "/app/total.txt /app/ledger.csv",
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def service() -> AsyncIterator[Service]:
    async with serve(HarborCatalog("harbor", HarborConfig(), bundled_tasks()), "process") as served:
        yield served


@pytest.mark.parametrize("task_id", PLACES)
async def test_no_tests_of_an_example_run_what_the_agent_left(service: Service, task_id: str) -> None:
    async with service.client.episode("harbor", task_id) as episode:
        planted = f"set -- {PLACES[task_id]}\n{FORGERY}"
        while True:
            await episode.step(native("execute_bash", {"command": planted}))
            if (await episode.step(native("submit", {}))).terminated:
                break
        verdict = await episode.evaluate()
        assert (verdict.score, verdict.success) == (0.0, False)


@pytest.mark.parametrize(
    ("command", "score"),
    [
        ("sort -k2,2nr -k1,1 scores.txt | cut -d' ' -f1 > ranking.txt", 1.0),
        ("sort -k2,2nr scores.txt | cut -d' ' -f1 | tac > ranking.txt", 0.0),
        ("echo 'ann 1' > scores.txt; echo ann > ranking.txt", 0.0),
        ("ln -s /app/scores.txt ranking.txt", 0.0),
        ("mkdir ranking.txt", 0.0),
        ("true", 0.0),
    ],
)
async def test_a_ranking_is_compared_with_that_of_the_tasks_own_scores(
    service: Service, command: str, score: float
) -> None:
    async with service.client.episode("harbor", "separate-sorting") as episode:
        await episode.step(native("execute_bash", {"command": command}))
        await episode.step(native("submit", {}))
        assert (await episode.evaluate()).score == score
