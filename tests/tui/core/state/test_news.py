"""What a reader who looks elsewhere is told, each thing once."""

from collections.abc import Sequence

from tests.tui.scene import task
from treadle.wire.tasks import TaskItem
from treadle_tui.core.state.attention import Alert
from treadle_tui.core.state.news import News


def marked(*statuses: str) -> list[TaskItem]:
    return [TaskItem.model_validate(task(number, status=status)) for number, status in enumerate(statuses)]


def alert(subject: str, severity: str = "warn") -> Alert:
    return Alert(severity, subject, "12 wait", "queue", subject)  # type: ignore[arg-type]


def told(news: News, *looks: Sequence[Alert]) -> list[list[str]]:
    return [news.of_alerts(look) for look in looks]


def test_a_marked_task_that_ends_is_told_once() -> None:
    news = News()

    assert news.of_marked(marked("running", "pending", "completed")) == []
    assert news.of_marked(marked("failed", "running", "completed")) == [f"Rotate {marked('failed')[0].id[-8:]} failed"]
    assert news.of_marked(marked("failed", "running", "completed")) == []


def test_a_task_that_is_marked_when_it_has_ended_and_one_whose_mark_was_taken_away_are_no_news() -> None:
    news = News()

    news.of_marked(marked("running"))
    news.of_marked([])
    assert news.of_marked(marked("completed")) == []


def test_what_wants_a_look_is_told_when_it_comes_or_grows_worse_and_what_was_there_already_is_not() -> None:
    old, new, worse = alert("rdf"), alert("billing"), alert("rdf", "bad")

    looks = told(News(), [old], [old, new], [old, new], [worse, new], [new], [], [])

    assert looks == [[], ["billing: 12 wait"], [], ["rdf: 12 wait"], [], ["nothing needs attention any more"], []]


def test_what_comes_from_outside_carries_no_escapes() -> None:
    news = News()
    news.of_alerts([])

    assert "\x1b" not in news.of_alerts([alert("a\x1b]0;x\x07b")])[0]
