"""Listing runs: by status, workflow, tag, id and time, in pages; what a listed run says of itself."""

from datetime import UTC, datetime, timedelta

import pytest

from perdure import ConfigurationError, RunFailed, Status, ask, receive, workflow


@workflow(name="listing.adds")
async def adds(n: int) -> int:
    if n < 0:
        raise ValueError("negative")
    return n + 1


@workflow(name="listing.waits")
async def waits() -> int:
    return (await receive("go")).value


def ids(page):
    return [run.id for run in page.items]


def moment(app):
    return datetime.fromtimestamp(app.clock.now() / 1_000_000, UTC)


async def one_of_each(app):
    """A run in each state that a run can rest in; their ids are their states."""
    await app.start(adds(1), id="succeeded")
    await app.start(adds(-1), id="failed")
    cancelled = await app.start(waits(), id="cancelled")
    paused = await app.start(waits(), id="paused")
    await app.start(waits(), id="waiting")
    await app.start(adds(2), id="delayed", delay="1d")
    await app.settle()
    await cancelled.cancel()
    await paused.pause()
    await app.settle()


async def test_by_status(perdure_app):
    app = perdure_app
    await one_of_each(app)
    states = ["succeeded", "failed", "cancelled", "paused", "waiting", "delayed"]
    for state in states:
        assert ids(await app.runs(status=state)) == [state]
    assert ids(await app.runs(status=Status.FAILED)) == ["failed"]
    assert ids(await app.runs(status=["failed", Status.WAITING])) == ["waiting", "failed"]
    assert ids(await app.runs(status="running")) == []
    assert ids(await app.runs()) == ["delayed", "waiting", "paused", "cancelled", "failed", "succeeded"]
    assert await app.count() == dict.fromkeys(states, 1)


async def test_by_workflow_tag_and_id(perdure_app):
    app = perdure_app
    await app.start(adds(1), id="job-1", tags=["red"])
    await app.start(adds(2), id="job-2", tags=["red", "blue"])
    await app.start(waits(), id="wait-1", tags=["blue"])
    await app.start(adds(3), id="job_3")
    assert ids(await app.runs(workflow="listing.adds")) == ["job_3", "job-2", "job-1"]
    assert ids(await app.runs(workflow="listing.unknown")) == []
    assert ids(await app.runs(tag="red")) == ["job-2", "job-1"]
    assert ids(await app.runs(tag=["red", "blue"])) == ["job-2"]
    assert ids(await app.runs(tag="blue", workflow="listing.waits")) == ["wait-1"]
    assert ids(await app.runs(id_prefix="job-")) == ["job-2", "job-1"]
    await app.settle()
    assert ids(await app.runs(id_prefix="job-", tag="blue", status="waiting")) == []
    assert ids(await app.runs(id_prefix="job-", tag="blue", status="succeeded")) == ["job-2"]


async def test_by_the_time_of_creation(perdure_app):
    app, times = perdure_app, []
    for n in range(4):
        times.append(moment(app))
        await app.start(adds(n), id=str(n))
        await app.advance("1h")
    assert ids(await app.runs(since=times[1])) == ["3", "2", "1"]
    assert ids(await app.runs(until=times[2])) == ["1", "0"]
    assert ids(await app.runs(since=times[1], until=times[3])) == ["2", "1"]
    assert ids(await app.runs(since=times[3] + timedelta(microseconds=1))) == []
    east = times[1].astimezone(tz=None)
    assert ids(await app.runs(since=east)) == ["3", "2", "1"]


async def test_pages_meet_without_gap_or_repeat_while_runs_come_and_go(perdure_app):
    app = perdure_app
    for n in range(7):
        await app.start(adds(n), id=f"old-{n}", tags=["odd"] if n % 2 else [])
    first = await app.runs(limit=3)
    assert ids(first) == ["old-6", "old-5", "old-4"]
    await app.start(adds(1), id="new")  # it is newer than everything on the pages to come
    await app.settle()
    await app.start(adds(9), id="old-3", if_exists="replace")
    second = await app.runs(limit=3, after=first.next)
    third = await app.runs(limit=3, after=second.next)
    assert [run.number for run in first.items + second.items + third.items] == [7, 6, 5, 4, 3, 2, 1]
    assert third.next is None
    assert ids(third) == ["old-0"]
    page = await app.runs(limit=2, tag="odd")
    assert ids(page) == ["old-5", "old-3~4"]
    last = await app.runs(limit=2, tag="odd", after=page.next)
    assert (ids(last), last.next) == (["old-1"], None)


async def test_a_full_last_page_has_no_next(perdure_app):
    for n in range(4):
        await perdure_app.start(adds(n), id=str(n))
    page = await perdure_app.runs(limit=4)
    assert (len(page.items), page.next) == (4, None)
    page = await perdure_app.runs(limit=2)
    assert page.next is not None
    assert (await perdure_app.runs(limit=2, after=page.next)).next is None


async def test_the_inbox_in_pages(perdure_app):
    app = perdure_app

    @workflow
    async def asks(n: int) -> bool:
        return await ask(f"Is it {n}?", to="ann" if n % 2 else "bob")

    for n in range(5):
        await app.start(asks(n))
    await app.settle()
    first = await app.inbox(limit=3)
    assert [each.question for each in first.items] == ["Is it 0?", "Is it 1?", "Is it 2?"]
    await app.answer(first.items[-1].id, True)  # the page's mark may be gone when the next one is asked for
    await app.settle()
    second = await app.inbox(limit=3, after=first.next)
    assert [each.question for each in second.items] == ["Is it 3?", "Is it 4?"]
    assert second.next is None
    assert [each.question for each in (await app.inbox(to="ann")).items] == ["Is it 1?", "Is it 3?"]


async def test_a_listed_run_says_how_it_stands(perdure_app):
    app = perdure_app
    began = moment(app)
    await one_of_each(app)
    runs = {run.id: run for run in (await app.runs()).items}
    assert {run.created_at for run in runs.values()} == {began}
    ended = runs["succeeded"]
    assert (ended.workflow, ended.started_at, ended.ended_at, ended.wakes_at) == ("listing.adds", began, began, None)
    assert runs["delayed"].wakes_at == began + timedelta(days=1)
    assert (runs["waiting"].worker, runs["waiting"].wakes_at) == (0, None)
    assert runs["cancelled"].cancel_requested_at == began
    with pytest.raises(RunFailed, match="negative"):
        await app.handle("failed").result()


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"limit": 0}, "limit must be at least 1"),
        ({"status": "finished"}, "'finished' is not a valid Status(.|\n)*succeeded"),
        ({"status": ["waiting", "dead"]}, "'dead'"),
        ({"since": datetime(2026, 1, 1)}, "aware"),
        ({"after": "x"}, "'x' is not the `next` of a page"),
        ({"tag": [""]}, "a tag must be text"),
    ],
    ids=["limit", "status", "statuses", "naive", "page", "tag"],
)
async def test_a_filter_that_means_nothing_is_refused(perdure_app, options, told):
    with pytest.raises(ConfigurationError, match=f"PRD-703(.|\n)*{told}"):
        await perdure_app.runs(**options)
