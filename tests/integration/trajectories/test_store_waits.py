"""No wait for the database lasts: not for locks of a node that vanished, nor for a silent server."""

import asyncio
import contextlib
import threading
from urllib.parse import urlsplit

import psycopg
import pytest
import sqlalchemy as sa

from sandbox_contract.problems import ErrorCode
from sandbox_service.config import StoreConfig
from sandbox_service.trajectories import postgres
from sandbox_service.trajectories.engine import connect
from sandbox_service.trajectories.pruning import PruneRules, plan_pruning, prune
from sandbox_service.trajectories.store import open_store
from tests.contract.store_ownership import code_of, end_lease
from tests.contract.trajectory_pruning import nothing
from tests.harness.episodes import START, create, event, instance
from tests.harness.stalling_link import stalling_link
from tests.harness.waiting import until

pytestmark = pytest.mark.postgres

LOCK = "SELECT 1 FROM trajectory_lives WHERE supervisor = %s FOR SHARE"


@contextlib.contextmanager
def vanished_within_a_transaction(url, supervisor):
    """The lock of a node that has lost its power after the first statement of its writer.

    It is one of an earlier release, which sets no limits that would end its session.
    """
    with psycopg.connect(url.replace("+psycopg", "")) as connection:
        connection.execute(LOCK, (supervisor,))
        yield connection
        connection.rollback()


async def opened(url, name, **settings):
    """A store that the supervisor of a name has."""
    # On a thread, since a link runs in this one's loop.
    store = await asyncio.to_thread(open_store, StoreConfig(url=url, lease_s=600, **settings))
    await store.acquire_lease(name)
    await store.begin_life(name)
    store.open_instance(instance(f"{name}.a", supervisor=name))
    await store.flush()
    return store


@pytest.mark.parametrize("claimant", ["a", "z"])
async def test_a_claim_gives_up_on_a_locked_supervisor_and_holds_up_nothing_else(url, claimant):
    vanished, store = await opened(url, "m"), await opened(url, claimant)
    end_lease(url, "m")
    async with asyncio.timeout(100):
        with vanished_within_a_transaction(url, "m"):
            claims = [asyncio.create_task(code_of(store.claim("m.a", "m"))) for _ in range(3)]
            claims.append(asyncio.create_task(code_of(store.claim_create("acme", "k", "m"))))
            for sequence in range(20):
                await store.renew_lease()
                store.append(event(f"{claimant}.a", sequence))
                await store.committed()
                assert len(await store.events(f"{claimant}.a")) == sequence + 1
                await store.created_by_key("acme", "k")
                await asyncio.sleep(0.05)
            assert set(await asyncio.gather(*claims)) == {ErrorCode.SUPERVISOR_UNAVAILABLE}
        assert (await store.claim("m.a", "m")).taken
    await store.close()
    await vanished.close()


async def test_a_supervisor_whose_former_process_still_has_a_lock_is_refused_its_lease_soon(url):
    former, again = await opened(url, "m"), open_store(StoreConfig(url=url))
    with vanished_within_a_transaction(url, "m"):
        async with asyncio.timeout(100):
            assert await code_of(again.acquire_lease("m")) is ErrorCode.STORAGE_FULL
    await again.acquire_lease("m")
    await again.close()
    await former.close()


async def test_pruning_leaves_the_episodes_of_a_locked_supervisor(url):
    vanished = await opened(url, "m")
    end_lease(url, "m")
    engine = connect(url)
    plan = await asyncio.to_thread(plan_pruning, engine, PruneRules(START + 500, unended=True), nothing)
    assert plan.removed.instances == 1
    with vanished_within_a_transaction(url, "m"):
        async with asyncio.timeout(100):
            assert (await asyncio.to_thread(prune, engine, plan, nothing)).instances == 0
    assert (await asyncio.to_thread(prune, engine, plan, nothing)).instances == 1
    engine.dispose()
    await vanished.close()


def setting(engine, name):
    with engine.connect() as connection:
        return connection.exec_driver_sql(f"SHOW {name}").scalar_one()


@pytest.mark.parametrize("serving", [False, True])
def test_the_server_notices_a_node_that_vanishes(url, serving):
    engine = connect(url, serving=serving)
    assert setting(engine, "idle_in_transaction_session_timeout") == "15s"
    assert setting(engine, "tcp_keepalives_idle") == "10"
    # Exports, pruning and upgrades take as long as they need.
    assert (setting(engine, "tcp_user_timeout") != "0") == serving
    assert (setting(engine, "lock_timeout") != "0") == serving
    assert (setting(engine, "statement_timeout") != "0") == serving
    engine.dispose()


def test_limits_in_the_url_take_precedence(url):
    engine = connect(f"{url}?options=-clock_timeout%3D7s", serving=True)
    assert setting(engine, "lock_timeout") == "7s"
    engine.dispose()


@pytest.fixture
async def link(url):
    async with stalling_link(urlsplit(url).port) as link:
        yield link


def over(link, url, **options):
    parts = urlsplit(url)
    given = "%20".join(f"-c{name}%3D{value}" for name, value in options.items())
    query = f"connect_timeout=2&options={given}"
    return f"{parts.scheme}://{parts.username}@127.0.0.1:{link.port}{parts.path}?{query}"


async def test_a_server_that_keeps_silent_costs_refusals_and_no_restart(url, link, monkeypatch):
    monkeypatch.setattr(postgres, "SILENCE_S", 1.0)
    store = await opened(over(link, url), "m", max_failing_s=0.5)
    link.stall()
    async with asyncio.timeout(100):
        store.append(event("m.a", 0))
        # More than there are threads.
        reads = [asyncio.create_task(code_of(store.created_by_key("acme", "k"))) for _ in range(4)]
        changes = [asyncio.create_task(code_of(store.renew_lease())) for _ in range(2)]
        changes.append(asyncio.create_task(code_of(store.claim("x.a", "x"))))
        changes.append(asyncio.create_task(code_of(store.begin_life("m"))))
        assert set(await asyncio.gather(*reads)) == {ErrorCode.DEADLINE_EXCEEDED}
        assert set(await asyncio.gather(*changes)) == {ErrorCode.STORAGE_FULL}
        await until(lambda: store.stats().last_error)
        link.resume()
        await until(lambda: not store.stats().pending)
        await asyncio.gather(*(store.created_by_key("acme", "k") for _ in range(4)))
        assert len(await store.events("m.a")) == 1
        await store.renew_lease()
        assert not (await store.claim("x.a", "x")).taken
    await store.close()


async def test_connections_that_fell_silent_are_replaced_unnoticed(url, link, monkeypatch):
    monkeypatch.setattr(postgres, "SILENCE_S", 1.0)
    store = await opened(over(link, url), "m")
    async with asyncio.timeout(100):
        link.leave_present_ones_stalled()
        store.append(event("m.a", 0))
        await store.renew_lease()
        assert len(await store.events("m.a")) == 1
    await store.close()


async def test_a_store_closes_while_its_server_keeps_silent(url, link, monkeypatch):
    monkeypatch.setattr(postgres, "SILENCE_S", 1.0)
    store = await opened(over(link, url), "m")
    link.stall()
    async with asyncio.timeout(100):
        assert await code_of(store.end_life("m")) is ErrorCode.STORAGE_FULL
        reads = [asyncio.create_task(store.created_by_key("acme", "k")) for _ in range(3)]
        await asyncio.sleep(0.1)
        await store.close()
        # The interpreter waits for them at its end.
        await until(lambda: not [each for each in threading.enumerate() if "trajectory" in each.name])
        await asyncio.gather(*reads, return_exceptions=True)


@pytest.mark.parametrize(("silence_s", "idle_ms"), [(8.0, 200), (1.0, 8000)], ids=["server", "client"])
async def test_transactions_that_a_silence_ends_lose_and_repeat_nothing(
    url, link, monkeypatch, silence_s, idle_ms
):
    monkeypatch.setattr(postgres, "SILENCE_S", silence_s)
    store = await opened(over(link, url, idle_in_transaction_session_timeout=idle_ms), "m")
    for sequence in range(300):
        store.append(event("m.a", sequence, response=b"x" * 200))
        await asyncio.sleep(0.001)
        if sequence % 100 == 50:
            link.stall()
            await asyncio.sleep(1.5)
            link.resume()
    await until(lambda: not store.stats().pending)
    assert [one.sequence for one in await store.events("m.a")] == list(range(300))
    assert store.stats().rejected == 0
    await store.close()


async def test_the_outcome_of_a_handover_is_waited_for(url, monkeypatch):
    monkeypatch.setattr(postgres, "SILENCE_S", 1.0)
    store = await opened(url, "m")
    engine = connect(url)
    with engine.begin() as connection:
        # The commit takes two seconds, as on a disk that stalls.
        connection.exec_driver_sql(
            "CREATE FUNCTION stall() RETURNS trigger AS $$ BEGIN PERFORM pg_sleep(2); RETURN NULL; END $$ "
            "LANGUAGE plpgsql"
        )
        connection.exec_driver_sql(
            "CREATE CONSTRAINT TRIGGER stalled AFTER UPDATE ON instances DEFERRABLE INITIALLY DEFERRED "
            "FOR EACH ROW EXECUTE FUNCTION stall()"
        )
    engine.dispose()
    await store.disown(["m.a"])
    assert (await store.instance("acme", "m.a")).owner == ""
    await store.close()


async def test_reads_of_a_whole_day_may_be_silent_for_longer(url, monkeypatch):
    monkeypatch.setattr(postgres, "SILENCE_S", 1.0)
    store = await opened(f"{url}?options=-cstatement_timeout%3D500ms", "m")
    store.append(create("m.a", key="k"))
    await store.flush()
    engine = connect(url)
    # A view in place of the table takes two seconds, as a large one may.
    with engine.begin() as connection:
        connection.execute(sa.text("ALTER TABLE events RENAME TO slow_events"))
        connection.execute(
            sa.text("CREATE VIEW events AS SELECT slow_events.* FROM slow_events, pg_sleep(2)")
        )
    assert len(await store.recorded_bytes("m", START, START + 10)) == 1
    assert await code_of(store.created_by_key("acme", "k")) is ErrorCode.DEADLINE_EXCEEDED
    engine.dispose()
    await store.close()
