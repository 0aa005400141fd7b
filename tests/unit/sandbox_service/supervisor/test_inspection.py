"""Listings and trajectories."""

from __future__ import annotations

from sandbox_service.contract.inspection import Instances, Trajectory
from sandbox_service.contract.problems import ErrorCode
from sandbox_service.runner.frames import Op
from tests.fakes.supervised import supervised


async def test_a_tenant_sees_its_own_instances_with_their_leases() -> None:
    async with supervised() as service:
        instance = await service.create()
        await service.tenant_named("bob").create()
        service.pass_time(10)
        listing = Instances.model_validate(await service.ask(Op.INSTANCES))
        (status,) = listing.instances
        assert status.instance_id == instance
        assert (status.idle_s, status.expires_in_s) == (10.0, 290.0)
        assert (status.supervisor, status.sandbox_id) == ("s1", "echo-1")


async def test_one_instance_can_be_asked_for() -> None:
    async with supervised() as service:
        first, _ = await service.create(), await service.create()
        listing = Instances.model_validate(await service.ask(Op.INSTANCES, first))
        assert [each.instance_id for each in listing.instances] == [first]
        assert await service.tenant_named("eve").refusal(Op.INSTANCES, first) is ErrorCode.UNKNOWN_INSTANCE


async def test_a_trajectory_tells_the_whole_episode() -> None:
    async with supervised() as service:
        instance = await service.create(task_id="echo-1", seed=7)
        await service.step(instance, "hello")
        await service.evaluate(instance)
        await service.release(instance)
        trajectory = Trajectory.model_validate(await service.ask(Op.TRAJECTORY, instance))
        assert (trajectory.tenant, trajectory.task_id, trajectory.seed) == ("ada", "echo-1", 7)
        assert [event.operation for event in trajectory.events] == ["create", "step", "evaluate", "release"]
        step = trajectory.events[1]
        assert step.request is not None
        assert step.result is not None
        assert step.reward == 1.0
        assert step.result["terminated"] is True


async def test_a_loss_is_told_with_its_reason() -> None:
    async with supervised() as service:
        instance = await service.create("diary")
        service.factory.home_of(instance).die()
        trajectory = Trajectory.model_validate(await service.ask(Op.TRAJECTORY, instance))
        last = trajectory.events[-1]
        assert last.operation == "lost"
        assert last.result is not None
        assert last.result["code"] == "instance_lost"


async def test_a_trajectory_of_a_chosen_id_is_the_tenants_own_and_names_it_as_chosen() -> None:
    async with supervised() as service:
        eve = service.tenant_named("eve")
        for tenant, content in ((service, "hello"), (eve, "other")):
            await tenant.create(instance_id="mine")
            await tenant.step("mine", content)
        trajectory = Trajectory.model_validate(await eve.ask(Op.TRAJECTORY, "mine"))
        assert (trajectory.tenant, trajectory.instance_id) == ("eve", "mine")
        step = trajectory.events[1].request
        assert step is not None
        assert step["message"] == {"role": "assistant", "content": "other"}
