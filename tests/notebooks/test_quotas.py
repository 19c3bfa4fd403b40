"""The scenarios of notebook 22: what brokers count, and what two tenants of one broker feel. And the notebook must turn
red when a throttled connection is read on, or a client is charged for another."""

from __future__ import annotations

import re

import pytest

from pykraft.client.administration.quotas import DEFAULT, ClientQuotaEntity
from pykraft.course.authoring.execute import NotebookFailed
from pykraft.course.lessons.quotas.counts import room, spent, which_quota
from pykraft.course.lessons.quotas.quota_lever import draw_quota, measured, picture
from pykraft.course.lessons.quotas.two_tenants import Answer, Run, run_chart, table
from tests.notebooks.sections import NOTEBOOK, run
from tests.viz.reading import complaints

PATH = NOTEBOOK.parent / "22_quotas.ipynb"
BY_CLIENT = {ClientQuotaEntity(client_id=DEFAULT): 1_000_000.0}
BY_USER = {ClientQuotaEntity(user=DEFAULT): 1_000_000.0}
NAMES = [f"job-{number}" for number in range(10)]


def test_a_bucket_earns_a_burst_back_and_a_sampled_rate_forgets_it_at_once() -> None:
    curves = {name: dict(points) for name, points in room(10, {1: 150}, 20).items()}
    assert [curves["token bucket"][second] for second in (0, 1, 5, 16, 20)] == [110, -40, 0, 110, 110]
    assert [curves["sampled rate"][second] for second in (0, 1, 11, 12)] == [100, -50, -50, 100]
    assert curves["sampled rate"][11.75] < 0


def test_each_client_id_has_a_count_of_its_own_and_a_user_has_one() -> None:
    one = spent(BY_CLIENT, "alice", NAMES[:1])
    assert one == spent(BY_USER, "alice", NAMES[:1]) == pytest.approx(66.9)
    assert spent(BY_CLIENT, "alice", NAMES) == pytest.approx(10 * one)
    assert spent(BY_USER, "alice", NAMES) < 1.1 * one


@pytest.mark.parametrize(
    ("user", "client_id", "expected"),
    [
        ("alice", "loader", "5 MB/s for alice, all client ids together"),
        ("alice", "report", "2 MB/s for alice as report"),
        ("bob", "loader", "1 MB/s for loader, all users together"),
        ("bob", "other", "no quota"),
    ],
)
def test_the_answer_names_the_quota_that_holds_and_who_shares_it(user: str, client_id: str, expected: str) -> None:
    quotas = {
        ClientQuotaEntity(user="alice"): 5e6,
        ClientQuotaEntity(user="alice", client_id="report"): 2e6,
        ClientQuotaEntity(client_id="loader"): 1e6,
    }
    assert which_quota(quotas, user, client_id) == expected


def test_a_run_is_told_in_figures_and_drawn() -> None:
    greedy = [Answer(0.1, 0, 5.0), Answer(0.15, 1500, 9.0), Answer(1.8, 700, 1500.0)]
    modest = [Answer(second / 10, 0, 1.0 if second < 19 else 8.0) for second in range(20)]
    seen = Run(1_000_000, 2.0, greedy, modest, 500_000)
    assert (seen.megabytes, seen.longest_throttle_ms, seen.median_ms, seen.p99_ms) == (1.5, 1500, 1.0, 8.0)
    assert seen.most_bytes == 1_000_000 * 4 + 6 * 500_000
    assert table({"1 MB/s": seen}) == {
        "1 MB/s": "greedy: 1.5 MB in 2 s, throttled for up to 1,500 ms; modest: median 1 ms, p99 8 ms"
    }
    figure = run_chart(seen)
    assert list(complaints(figure)) == []
    assert (
        "throttle_time_ms: up to 1,500, at 0.1 s" in figure.text and "greedy: MB/s: up to 10, at 0.1 s" in figure.text
    )


def test_the_lever_measures_both_tenants_with_the_quota_and_without() -> None:
    runs = measured(2, free_s=0.3, held_s=0.5)
    assert runs.held.quota == 2_000_000 < runs.held.taken_bytes <= runs.held.most_bytes
    assert runs.free.longest_throttle_ms == 0 < runs.held.longest_throttle_ms
    text = picture(runs).text
    assert text.startswith("With 2 MB/s for the greedy tenant, the modest one's latency goes from ")
    assert f"greedy: throttle ms: none (no quota), up to {runs.held.longest_throttle_ms:,} ms" in text


@pytest.mark.long
def test_a_smaller_quota_leaves_the_greedy_tenant_less() -> None:
    found = [re.findall(r"([\d.]+) MB/s \(", draw_quota(quota_mb).text) for quota_mb in (2, 20)]
    (_, little), (_, more) = found
    assert 2 < float(little) < 8 < 20 < float(more) < 50, found


A_MUTED_CONNECTION_THAT_IS_READ_ON = """
from pykraft.transport.server_channel import ServerChannel
from pykraft.transport.server_connection import ServerConnection

done = ServerChannel.done
ServerChannel.done = lambda self, context, throttled=False: done(self, context)
ServerConnection._unthrottle = lambda self, now: None
"""

ALL_CHARGED_TOGETHER = """
from pykraft.metadata.client_quotas import QuotaTable, Sharing

find = QuotaTable.find
QuotaTable.find = lambda self, user, client_id: (Sharing(user, "all"), find(self, user, client_id)[1])
"""


@pytest.mark.long
def test_a_muted_connection_that_is_read_on_turns_the_notebook_red() -> None:
    with pytest.raises(NotebookFailed, match="does not hold: A throttled connection is read again only when"):
        run("3. ", since="2. ", path=PATH, before=A_MUTED_CONNECTION_THAT_IS_READ_ON)


@pytest.mark.long
def test_a_client_that_is_charged_for_another_turns_the_notebook_red() -> None:
    with pytest.raises(NotebookFailed, match="does not hold: Ten client ids get ten times as much"):
        run("Where this differs", since="4. ", path=PATH, before=ALL_CHARGED_TOGETHER)
