"""The console in a real browser: signing in, pages that renew themselves, keys, and no barriers."""

import json
import os

import pytest
import pytest_asyncio

from tests.harness.browser import barriers, chromium, chromium_path, overflow, tab
from tests.harness.console import served_console
from tests.harness.run_folder import write_run

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]

HOSTILE = "</pre><script>window.hacked = 1</script><img src=x onerror='window.hacked = 2'>"
PHONE = {"width": 390, "height": 844}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser():
    chromium_path()
    async with chromium() as browser:
        yield browser


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("console")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def console(folder):
    """Two episodes of one task, in which the agent says something hostile, one graded; two training runs."""
    write_run(folder / "runs" / "other", steps=20, groups=3)
    async with served_console(folder) as console:
        for name in ("one", "two"):
            await console.service.create(instance_id=name)
            for said in (f"hello {name}", HOSTILE, "again"):
                await console.service.step(name, said)
        await console.service.evaluate("one")
        yield console


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cookies(browser, console):
    """The state of a browser that has signed in by the form."""
    async with tab(browser) as page:
        answer = await page.goto(f"{console.url}/console/episodes/one")
        assert answer.status == 401
        page.errors.clear()  # Chromium reports the status
        await page.get_by_label("API key").fill(console.key)
        await page.get_by_role("button", name="Sign in").click()
        await page.wait_for_url("**/console/episodes/one")
        assert await page.evaluate("document.cookie") == "", "scripts cannot read the key"
        return await page.context.storage_state()


async def test_the_overview_renews_itself_in_place(browser, console, cookies):
    async with tab(browser, storage_state=cookies) as page:
        await page.goto(f"{console.url}/console")
        await page.evaluate("document.querySelector('table').kept = true")
        await console.service.create(instance_id="newcomer")
        await page.wait_for_selector("a[href='/console/episodes/newcomer']")
        assert await page.evaluate("document.querySelector('table').kept")


async def test_the_focus_stays_on_its_row_when_others_come_and_go(browser, console, cookies):
    for name in ("first", "second", "third"):
        await console.service.create(instance_id=name)
    focused = "document.activeElement.closest('tr')?.id || document.activeElement.id"
    async with tab(browser, storage_state=cookies) as page:
        await page.goto(f"{console.url}/console")
        await page.get_by_role("link", name="Release second").focus()
        for gone, come in (("third", "fourth"), ("first", "fifth")):
            await console.service.create(instance_id=come)
            await console.service.release(gone)
            await page.wait_for_selector(f"#instance-{gone}", state="detached")
            await page.wait_for_selector(f"#instance-{come}")
            assert await page.evaluate(focused) == "instance-second"
        await console.service.release("second")
        await page.wait_for_selector("#instance-second", state="detached")
        assert await page.evaluate(focused) == "main"
    for name in ("fourth", "fifth"):
        await console.service.release(name)


@pytest.mark.parametrize(
    ("status", "news"),
    [(403, "no longer see"), (404, "is gone"), (429, "too many requests"), (503, "does not answer")],
)
async def test_a_page_that_cannot_be_renewed_says_why(browser, console, cookies, status, news):
    asked = []

    async def refuse(route):
        asked.append(route.request.url)
        await route.fulfill(status=status, headers={"retry-after": "30"} if status == 429 else {})

    async with tab(browser, storage_state=cookies) as page:
        await page.clock.install()
        await page.goto(f"{console.url}/console")
        await page.route("**/console", refuse)
        await page.clock.run_for(6_000)
        await page.wait_for_selector(f"#news:has-text('{news}')")
        if status == 429:
            await page.clock.run_for(20_000)
            assert len(asked) == 1, "Retry-After is respected"
        else:
            async with page.expect_request("**/console"):
                await page.clock.run_for(11_000)
        await page.unroute("**/console")
        await page.clock.run_for(31_000)
        await page.wait_for_selector("#news:empty", state="attached")
        page.errors.clear()  # Chromium reports the status


async def test_keys_step_through_an_episode_and_links_lead_to_a_step(browser, console, cookies):
    async with tab(browser, storage_state=cookies) as page:
        await page.goto(f"{console.url}/console/episodes/one")
        for key, chosen in (("j", "event-0"), ("j", "event-1"), ("ArrowDown", "event-2"), ("k", "event-1")):
            await page.keyboard.press(key)
            assert await page.evaluate("document.querySelector('.step.chosen').id") == chosen
        assert page.url.endswith("#event-1")
        await page.goto(f"{console.url}/console/episodes/one#event-3")
        await page.wait_for_selector("#event-3.chosen")
        assert await page.evaluate("window.hacked") is None
        assert HOSTILE in await page.locator("#event-2 .assistant pre").inner_text()


async def test_a_live_episode_grows_and_leaves_focus_scrolling_and_open_parts_alone(
    browser, console, cookies
):
    await console.service.create(instance_id="growing", task_id="echo-endless")
    for _ in range(3):
        await console.service.step("growing", "many lines\n" * 30)
    state = """() => [document.activeElement.id, document.querySelector('.step.chosen').id, scrollY,
        document.querySelector('#event-0 details').open]"""
    async with tab(browser, storage_state=cookies) as page:
        await page.goto(f"{console.url}/console/episodes/growing")
        await page.locator("#event-0 details summary").click()
        await page.keyboard.press("j")
        await page.keyboard.press("j")
        before = await page.evaluate(state)
        focused, chosen, scrolled, opened = before
        assert (focused, chosen, scrolled > 0, opened) == ("event-1", "event-1", True, True)
        await console.service.step("growing", "one more")
        await page.wait_for_selector("#event-4")
        assert await page.evaluate(state) == before
        assert "step 3" in await page.locator("[role=status][aria-live=polite]").inner_text()
        assert await barriers(page) == []
        await page.get_by_role("link", name="Go to the latest").click()
        await page.wait_for_selector("#event-4.chosen")


async def test_the_tail_rests_while_the_page_is_hidden_and_ends_with_the_verdict(browser, console, cookies):
    await console.service.create(instance_id="ending")
    hide = "hidden => { Object.defineProperty(document, 'hidden', {value: hidden, configurable: true});"
    hide += " document.dispatchEvent(new Event('visibilitychange', {bubbles: true})); }"
    async with tab(browser, storage_state=cookies, viewport=PHONE, color_scheme="dark") as page:
        asked = []
        page.on("request", lambda request: asked.append(request.url) if "/tail" in request.url else None)
        await page.clock.install()
        await page.goto(f"{console.url}/console/episodes/ending")
        await page.evaluate(hide, True)
        await page.clock.run_for(20_000)
        assert asked == []
        await console.service.step("ending", "hello")
        await console.service.evaluate("ending")
        await page.evaluate(hide, False)
        await page.wait_for_selector("#event-2")
        await page.get_by_role("link", name="Release ending").focus()
        await console.service.release("ending")
        await page.clock.run_for(2_000)
        await page.wait_for_selector("#arrivals:has-text('The episode has ended: missed')")
        assert "missed" in await page.locator("#facts").inner_text()
        assert await page.evaluate("document.activeElement.id") == "main", "the focused link has gone"
        assert await barriers(page) == []
        assert await overflow(page) <= 0
        asked.clear()
        await page.clock.run_for(60_000)
        assert asked == []


async def test_ticked_episodes_come_side_by_side(browser, console, cookies):
    async with tab(browser, storage_state=cookies) as page:
        await page.goto(f"{console.url}/console/episodes?task=echo")
        for name in ("one", "two"):
            await page.get_by_label(f"tick {name}", exact=True).check()
        await page.get_by_role("button", name="Side by side").click()
        await page.wait_for_selector(".diff .left")
        assert await page.locator(".diff .left").first.inner_text() == "hello two"


async def test_a_bar_of_the_histogram_leads_to_its_episodes_and_they_can_be_downloaded(
    browser, console, cookies, tmp_path
):
    async with tab(browser, storage_state=cookies) as page:
        await page.goto(f"{console.url}/console/episodes?task=echo")
        bars = page.locator(".histogram a")
        shown = int(await bars.last.locator("b").inner_text())
        await bars.last.click()
        await page.wait_for_selector(".histogram a[aria-current]")
        assert await page.locator("input[name=id]").count() == shown
        async with page.expect_download() as started:
            await page.get_by_role("link", name=f"Download {shown} as JSONL").click()
        file = tmp_path / "episodes.jsonl"
        await (await started.value).save_as(file)
        rows = [json.loads(line) for line in file.read_text().splitlines()]
        assert len(rows) == shown
        assert all(row["tenant"] == "ada" and row["messages"] for row in rows)


async def test_tasks_are_sorted_by_the_head_of_a_column_and_lead_to_their_episodes(browser, console, cookies):
    async with tab(browser, storage_state=cookies) as page:
        await page.goto(f"{console.url}/console/tasks")
        await page.get_by_role("link", name="pass rate").click()
        await page.wait_for_selector("th[aria-sort=descending]:has-text('pass rate')")
        row = page.locator("tbody tr").first
        assert "echo-10" in await row.inner_text()
        await row.get_by_role("link", name="episodes of echo-10").click()
        await page.wait_for_selector("a[href='/console/episodes/one']")


async def test_ticked_runs_are_compared_and_another_metric_can_be_chosen(browser, console, cookies):
    async with tab(browser, storage_state=cookies) as page:
        await page.goto(f"{console.url}/console/runs")
        for name in ("mine", "other"):
            await page.get_by_label(f"tick {name}", exact=True).check()
        await page.get_by_role("button", name="Compare").click()
        await page.wait_for_selector("h2:has-text('reward/mean')")
        await page.locator("select[name=metric]").select_option("loss/sft")
        await page.get_by_role("button", name="Show").click()
        await page.wait_for_selector("h2:has-text('loss/sft')")
        lines = page.locator(".plot polyline")
        dashes = [await lines.nth(n).evaluate("e => getComputedStyle(e).strokeDasharray") for n in (0, 1)]
        assert dashes[0] != dashes[1], "lines differ by more than their colour"


async def test_the_list_of_runs_stays_as_it_is_while_one_is_ticked(browser, console, cookies, folder):
    async with tab(browser, storage_state=cookies) as page:
        await page.clock.install()
        await page.goto(f"{console.url}/console/runs")
        first, second = [await row.inner_text() for row in await page.locator("tbody th").all()]
        await page.get_by_label(f"tick {second}", exact=True).check()
        os.utime(folder / "runs" / second / "metrics.jsonl")
        await page.clock.run_for(11_000)
        assert await page.locator("tbody th").first.inner_text() == first
        await page.get_by_label(f"tick {second}", exact=True).uncheck()
        await page.evaluate("document.activeElement.blur()")
        await page.clock.run_for(11_000)
        await page.wait_for_selector(f"tbody tr:first-child th:has-text('{second}')")


async def test_a_tick_that_is_set_while_the_list_loads_keeps_it(browser, console, cookies, folder):
    async with tab(browser, storage_state=cookies) as page:
        await page.clock.install()
        await page.goto(f"{console.url}/console/runs")
        first, second = [await row.inner_text() for row in await page.locator("tbody th").all()]

        async def tick(route):
            os.utime(folder / "runs" / second / "metrics.jsonl")
            await page.get_by_label(f"tick {second}", exact=True).check()
            await route.continue_()

        await page.route("**/console/runs", tick)
        async with page.expect_response("**/console/runs"):
            await page.clock.run_for(11_000)
        await page.clock.run_for(1_000)
        assert await page.locator("tbody th").first.inner_text() == first
        assert await page.get_by_label(f"tick {second}", exact=True).is_checked()


async def test_a_release_asks_first_and_the_instance_leaves_the_overview(browser, console, cookies):
    await console.service.create(instance_id="leaving")
    async with tab(browser, storage_state=cookies) as page:
        await page.goto(f"{console.url}/console")
        await page.get_by_role("link", name="Release leaving").click()
        assert await barriers(page) == []
        await page.get_by_role("button", name="Release it").click()
        await page.wait_for_selector("text=Released leaving")
        assert (await console.service.states())["leaving"] == "released"
        await page.get_by_role("link", name="To the overview").click()
        await page.wait_for_selector("h1:has-text('Overview')")
        assert await page.get_by_role("link", name="Release leaving").count() == 0


@pytest.mark.parametrize(("size", "scheme"), [(None, "light"), (PHONE, "dark")], ids=["desk", "phone"])
async def test_no_page_has_a_barrier_or_is_wider_than_its_window(browser, console, cookies, scheme, size):
    options = {"viewport": size} if size else {}
    async with tab(browser, storage_state=cookies, color_scheme=scheme, **options) as page:
        for path in (
            "login",
            "",
            "tasks",
            "tasks?sort=pass_rate&order=descending",
            "episodes",
            "episodes?least_reward=0&most_reward=0",
            "episodes/one",
            "episodes/one/release",
            "compare?id=one&id=two",
            "runs",
            "compare_runs?run=mine&run=other",
            "runs/mine",
            "runs/mine/steps/11",
            "runs/mine/groups/5",
            "runs/mine/groups/5/episodes/5.1",
        ):
            answer = await page.goto(f"{console.url}/console/{path}")
            assert answer.status == 200
            assert await barriers(page) == [], path
            assert await overflow(page) <= 0, path
        assert await page.evaluate("window.hacked") is None
