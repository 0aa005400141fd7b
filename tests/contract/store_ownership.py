"""The promises of ownership that every trajectory store keeps; a subclass names the database by ``url``."""

import asyncio

import pytest
import sqlalchemy as sa

from sandbox_contract.problems import ErrorCode
from sandbox_service.config import StoreConfig
from sandbox_service.errors import ServiceError
from sandbox_service.trajectories.engine import connect
from sandbox_service.trajectories.records import EventKind, KeyedCreate, record_id
from sandbox_service.trajectories.schema import lives
from sandbox_service.trajectories.store import open_store
from tests.harness.episodes import create, event, instance


def end_lease(url, supervisor):
    """Have a supervisor's lease run out now, as after a partition."""
    engine = connect(url)
    with engine.begin() as connection:
        connection.execute(lives.update().where(lives.c.supervisor == supervisor).values(leased_until=1.0))
    engine.dispose()


async def code_of(operation):
    with pytest.raises(ServiceError) as caught:
        await operation
    return caught.value.code


class StoreOwnershipContract:
    @pytest.fixture
    async def stores(self, url):
        """The stores of the supervisors s1, which has the instances s1.a and s1.b, and s2 and s3."""
        stores = [open_store(StoreConfig(url=url, lease_s=600)) for _ in range(3)]
        for number, store in enumerate(stores, 1):
            await store.acquire_lease(f"s{number}")
            await store.begin_life(f"s{number}")
        for name in ("s1.a", "s1.b"):
            stores[0].open_instance(instance(name))
            stores[0].append(event(name))
        await stores[0].flush()
        yield stores
        for store in stores:
            await store.close()

    async def test_an_instance_is_its_supervisors_while_the_lease_holds(self, stores):
        claim = await stores[1].claim("s1.a", "s1")
        assert not claim.taken
        assert 0 < claim.held_s <= 600
        stores[0].append(event("s1.a", 1))
        assert len(await stores[0].events("s1.a")) == 2

    async def test_all_know_that_they_share_a_database_without_asking_it(self, stores):
        assert [store.is_shared() for store in stores] == [True] * 3

    async def test_when_the_lease_has_run_out_one_of_many_claimants_gets_an_instance(self, stores, url):
        end_lease(url, "s1")
        claims = await asyncio.gather(*(store.claim("s1.a", "s1") for store in stores[1:] * 3))
        assert sum(claim.taken for claim in claims) == 1
        assert sum(claim.fenced for claim in claims) == 1
        new_owner = next(f"s{2 + number % 2}" for number, claim in enumerate(claims) if claim.taken)
        assert (await stores[1].instance("acme", "s1.a")).owner == new_owner
        assert [one.instance_id for one in await stores[0].unended(new_owner)] == ["s1.a"]
        assert [one.instance_id for one in await stores[1].unended("s1")] == ["s1.b"]

    async def test_nothing_is_taken_of_what_a_fenced_supervisor_still_writes(self, stores, url):
        first = stores[0]
        end_lease(url, "s1")
        assert (await stores[1].claim("s1.a", "s1")).fenced
        first.append(event("s1.a", 1))
        first.append(event("s1.b", 1))
        assert await code_of(first.flush()) is ErrorCode.SUPERVISOR_UNAVAILABLE
        for operation in (first.committed(), first.renew_lease(), first.disown(["s1.b"])):
            assert await code_of(operation) is ErrorCode.SUPERVISOR_UNAVAILABLE
        with pytest.raises(ServiceError, match="taken over"):
            first.append(event("s1.b", 2))
        assert await code_of(first.claim("s2.x", "s2")) is ErrorCode.SUPERVISOR_UNAVAILABLE
        stores[1].append(event("s1.a", 1, response=b"of the new owner"))
        assert [one.response for one in await stores[1].events("s1.a")] == [b"", b"of the new owner"]
        assert len(await stores[1].events("s1.b")) == 1

    async def test_an_answer_that_waits_for_its_commit_fails_when_its_supervisor_is_fenced(self, stores, url):
        engine = connect(url)
        with engine.begin() as other:
            # Holds up the batch until the epoch is over.
            other.execute(lives.update().values(epoch=lives.c.epoch + 1))
            stores[0].append(event("s1.a", 1))
            waiting = asyncio.create_task(stores[0].committed())
            await asyncio.sleep(0)
        assert await code_of(waiting) is ErrorCode.SUPERVISOR_UNAVAILABLE
        engine.dispose()

    @pytest.mark.parametrize("lease_s", [1, 6000])
    async def test_a_supervisor_with_another_duration_leaves_instances_to_a_lease_that_holds(
        self, stores, url, lease_s
    ):
        """Settings differ between nodes while they are changed under load."""
        other = open_store(StoreConfig(url=url, lease_s=lease_s))
        await other.acquire_lease("s4")
        claim = await other.claim("s1.a", "s1")
        assert (claim.taken, 0 < claim.held_s <= 600) == (False, True)
        stores[0].append(event("s1.a", 1))
        await stores[0].flush()
        end_lease(url, "s1")
        assert (await other.claim("s1.a", "s1")).taken
        await other.close()

    async def test_a_lease_that_ran_out_unnoticed_is_renewed_and_holds_again(self, stores, url):
        end_lease(url, "s1")
        await stores[0].renew_lease()
        assert not (await stores[1].claim("s1.a", "s1")).taken

    async def test_a_lease_from_before_a_jump_of_the_clock_has_run_out(self, stores, url):
        engine = connect(url)
        with engine.begin() as connection:
            connection.execute(lives.update().values(leased_until=lives.c.leased_until + 86_400))
        engine.dispose()
        assert (await stores[1].claim("s1.a", "s1")).taken

    async def test_a_process_that_starts_under_the_same_name_fences_the_former_one(self, stores, url):
        again = open_store(StoreConfig(url=url))
        await again.acquire_lease("s1")
        stores[0].append(event("s1.a", 1))
        assert await code_of(stores[0].flush()) is ErrorCode.SUPERVISOR_UNAVAILABLE
        again.append(event("s1.a", 1))
        assert len(await again.events("s1.a")) == 2
        await again.close()

    async def test_a_supervisor_that_ended_in_order_leaves_its_instances_at_once(self, stores):
        await stores[0].end_life("s1")
        assert (await stores[1].claim("s1.a", "s1")).taken

    async def test_a_disowned_instance_is_anybodys_and_its_supervisor_keeps_the_others(self, stores):
        stores[0].append(event("s1.a", 1))
        await stores[0].disown(["s1.a"])
        record = await stores[1].instance("acme", "s1.a")
        assert (record.owner, record.supervisor) == ("", "s1")
        assert (await stores[1].claim("s1.a", "")).taken
        assert (await stores[1].claim("s1.a", "")).known
        assert not (await stores[1].claim("", "never here")).known
        assert not (await stores[2].claim("s1.a", "")).taken
        assert not (await stores[2].claim("s1.b", "s1")).taken
        assert len(await stores[1].events("s1.a")) == 2

    async def test_unended_instances_are_found_by_how_their_ids_begin_whoever_has_them(self, stores):
        first, second, _ = stores
        chosen = [record_id("acme", each) for each in ("Box_1.a", "Box_1.b", "box_1.c", "Box-1.d")]
        for name in (*chosen, "Box_1.early"):
            first.open_instance(instance(name))
        first.open_instance(instance(record_id("other", "Box_1.a"), tenant="other"))
        first.append(event(chosen[1], 0, EventKind.RELEASE))
        await first.disown([chosen[0]])
        assert set(await second.unended_named("acme", "Box_1.", 10)) == {"Box_1.a", "Box_1.early"}
        assert len(await second.unended_named("acme", "Box_1.", 1)) == 1

    async def test_one_of_many_claimants_gets_a_create_until_it_ends_the_claim(self, stores, url):
        assert (await stores[1].claim_create("acme", "k", "s1")).held_s > 0
        assert not (await stores[1].claim_create("acme", "k", "never here")).known
        assert await stores[0].created_by_key("acme", "k") == KeyedCreate()
        end_lease(url, "s1")
        claims = await asyncio.gather(*(store.claim_create("acme", "k", "s1") for store in stores[1:]))
        assert sum(claim.taken for claim in claims) == 1
        assert sum(claim.fenced for claim in claims) == 1
        new_owner = 1 + [claim.taken for claim in claims].index(True)
        name, other = f"s{new_owner + 1}", stores[3 - new_owner]
        assert {claim.holder for claim in claims} <= {"", name}
        assert await other.created_by_key("acme", "k") == KeyedCreate(claimant=name)
        assert await other.created_by_key("nobody", "k") == KeyedCreate()
        await other.end_create_claim("acme", "k")
        assert (await other.claim_create("acme", "k", "s1")).holder == name
        assert (await other.claim_create("acme", "another", "s1")).taken
        await stores[new_owner].end_create_claim("acme", "k")
        assert (await other.claim_create("acme", "k", "s1")).taken

    async def test_of_two_owners_that_are_away_a_create_is_claimed_once(self, stores, url):
        for name in ("s4", "s5"):
            away = open_store(StoreConfig(url=url, lease_s=600))
            await away.acquire_lease(name)
            await away.close()
            end_lease(url, name)
        owners = ("s4", "s5") * 3
        claims = await asyncio.gather(
            *(store.claim_create("acme", "k", owner) for store, owner in zip(stores * 2, owners, strict=True))
        )
        holders = {(await store.created_by_key("acme", "k")).claimant for store in stores}
        assert len(holders) == 1
        taken = [f"s{1 + number % 3}" for number, claim in enumerate(claims) if claim.taken]
        assert set(taken) == holders

    async def test_a_claim_ends_by_fencing_its_holder_and_not_by_a_late_renewal(self, stores, url):
        end_lease(url, "s1")
        assert (await stores[1].claim_create("acme", "k", "s1")).taken
        end_lease(url, "s2")
        assert (await stores[0].created_by_key("acme", "k")).claimant == "s2"
        assert (await stores[2].claim_create("acme", "k", "s1")).holder == "s2"
        claim = await stores[2].claim_create("acme", "k", "s2")
        assert (claim.taken, claim.fenced) == (True, True)
        assert await code_of(stores[1].renew_lease()) is ErrorCode.SUPERVISOR_UNAVAILABLE
        await stores[2].end_create_claim("acme", "k")

    async def test_a_claim_ends_with_its_holders_process_also_when_that_is_replaced(self, stores, url):
        end_lease(url, "s1")
        assert (await stores[1].claim_create("acme", "k", "s1")).taken
        again = open_store(StoreConfig(url=url, lease_s=600))
        await again.acquire_lease("s2")
        assert await stores[2].created_by_key("acme", "k") == KeyedCreate()
        assert (await again.claim_create("acme", "k", "s1")).taken
        # The former process of the name ends nothing that is not its own.
        await stores[1].end_create_claim("acme", "k")
        assert (await stores[2].created_by_key("acme", "k")).claimant == "s2"
        await again.close()

    async def test_a_claim_ends_after_the_records_before_it_are_written(self, stores, url):
        end_lease(url, "s1")
        assert (await stores[1].claim_create("acme", "k", "s1")).taken
        stores[1].open_instance(instance("s2.a"))
        stores[1].append(create("s2.a", key="k"))
        await stores[1].end_create_claim("acme", "k")
        assert (await stores[2].created_by_key("acme", "k")).event == create("s2.a", key="k")

    async def test_an_instance_that_has_ended_is_not_claimed(self, stores, url):
        await stores[0].end_life("s1")
        engine = connect(url)
        with engine.begin() as connection:
            connection.execute(sa.text("UPDATE instances SET ended_at = 1.0"))
        engine.dispose()
        assert not (await stores[1].claim("s1.a", "s1")).taken
