"""Work on long texts leaves the event loop to others; short work stays where it is."""

import asyncio
import threading

import pytest

from trainer.chat.offload import SHORT, Offload


async def where(offload, characters):
    return await offload.run(characters, threading.current_thread)


async def test_long_texts_go_to_another_thread_and_short_ones_do_not():
    offload = Offload()
    assert await where(offload, SHORT - 1) is threading.current_thread()
    assert await where(offload, SHORT) is not threading.current_thread()


async def test_what_may_not_be_shared_stays_in_one_thread():
    assert await where(Offload(shared=False), SHORT) is threading.current_thread()


async def test_others_go_on_meanwhile_and_errors_come_back():
    offload, go = Offload(), threading.Event()

    def fail():
        go.wait()
        raise ValueError("a template that does not fit")

    working = asyncio.create_task(offload.run(SHORT, fail))
    await asyncio.sleep(0)
    go.set()
    with pytest.raises(ValueError, match="does not fit"):
        await working
