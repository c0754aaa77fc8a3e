"""What is said of the metrics: the page, the dashboard and the alert rules name those that there are."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from treadle import tracing
from treadle_server.services import traces
from treadle_server.services.metrics import METRICS

DOCS = Path(__file__).parents[2] / "docs"
KINDS = {"histogram": ("_bucket", "_sum", "_count")}
SERIES = {name: {name + ending for ending in KINDS.get(metric.kind, ("",))} for name, metric in METRICS.items()}
"""As what each metric can be asked for: a histogram by its buckets, its sum and its count."""


def expressions_of_the_dashboard() -> Iterator[str]:
    board = json.loads((DOCS / "monitoring/dashboard.json").read_text())
    for panel in board["panels"]:
        assert panel["title"], panel
        assert panel["description"], panel
        yield from (target["expr"] for target in panel["targets"])


def expressions_of_the_alerts() -> Iterator[str]:
    for group in yaml.safe_load((DOCS / "monitoring/alerts.yml").read_text())["groups"]:
        for rule in group["rules"]:
            assert rule["alert"].startswith("Treadle")
            assert rule["labels"]["severity"] in {"warning", "critical"}
            assert rule["annotations"].keys() == {"summary", "description"}
            yield rule["expr"]


def names_in(expressions: Iterator[str]) -> set[str]:
    return {name for one in expressions for name in re.findall(r"\btreadle_\w+", one)}


@pytest.mark.parametrize("expressions", [expressions_of_the_dashboard, expressions_of_the_alerts])
def test_every_metric_that_the_dashboard_and_the_alerts_name_exists(expressions) -> None:
    named = names_in(expressions())

    assert len(named) > 3
    assert named - set().union(*SERIES.values()) == set()


def test_the_alert_that_nothing_starts_is_kept_by_runs_that_end_for_waits_are_those_of_first_runs_alone() -> None:
    [starts] = [expr for expr in expressions_of_the_alerts() if "treadle_task_wait_seconds_count" in expr]

    assert re.findall(r"unless on \(job\) sum by \(job\) \(rate\((\w+)\[10m\]\)\) > 0", starts) == [
        "treadle_task_wait_seconds_count",
        "treadle_task_run_seconds_count",
    ]


def test_every_metric_is_on_the_dashboard() -> None:
    named = names_in(expressions_of_the_dashboard())

    assert [name for name, series in SERIES.items() if not series & named] == []


def test_the_page_describes_each_metric_with_its_kind_and_labels() -> None:
    rows = re.findall(
        r"^\| `(treadle_\w+)` \| (\w+) \| ([^|]*) \| ([^|]+) \|$", (DOCS / "monitoring.md").read_text(), re.MULTILINE
    )

    described = {name: (kind, tuple(re.findall(r"\w+", labels))) for name, kind, labels, _ in rows}
    assert described == {name: (metric.kind, metric.labels) for name, metric in METRICS.items()}
    assert [name for name, _, _, told in rows if not told.startswith(METRICS[name].help)] == []


def test_the_page_describes_each_span() -> None:
    rows = re.findall(
        r"^\| `(\w+) JOB` \| `([\w-]+)` \| ([^|]+) \|$", (DOCS / "monitoring.md").read_text(), re.MULTILINE
    )

    of_sdk = {(name, "treadle", told) for name, told in tracing.SPANS.items()}
    assert set(rows) == of_sdk | {(name, "treadle-server", told) for name, told in traces.SPANS.items()}
