"""The subscriptions that the screens want, and those that the server has been asked for."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any

from treadle.wire.frames import Topic, Window


@dataclass(frozen=True)
class Want:
    """A topic, and which part of it to watch."""

    topic: Topic
    window: Window | None = None
    task_id: str | None = None
    room: str | None = None

    def fields(self) -> dict[str, Any]:
        """Return the fields of the `watch` request."""
        found: dict[str, Any] = {"topic": self.topic}
        if self.window is not None:
            found["window"] = self.window.model_dump(mode="json", exclude_none=True)
        if self.task_id is not None:
            found["task_id"] = self.task_id
        if self.room is not None:
            found["room"] = self.room
        return found


@dataclass(frozen=True, slots=True)
class Step:
    """A request that brings the subscriptions closer to what is wanted."""

    op: str
    topic: Topic
    sub: str
    fields: dict[str, Any]


class Subscriptions:
    """One subscription for each topic, with a new id for each change, so that late pushes can be recognised.

    Only the latest want of a topic counts: a cursor that runs through twenty queues requests only the first and the
    last.
    """

    def __init__(self) -> None:
        self._wanted: dict[Topic, Want] = {}
        self._asked: dict[Topic, tuple[str, Want | None]] = {}
        self._numbers = count(1)

    def want(self, want: Want) -> bool:
        """Want this in place of the topic's current want; return whether it is a change."""
        if self._wanted.get(want.topic) == want:
            return False
        self._wanted[want.topic] = want
        return True

    def drop(self, topic: Topic) -> bool:
        """Want nothing of a topic any more; return whether that is a change.

        If the topic is wanted again before the server is asked, it is requested again, because its rows were cleared.
        """
        self.renew(topic)
        return self._wanted.pop(topic, None) is not None

    def wanted(self, topic: Topic) -> Want | None:
        """Return what is wanted of a topic."""
        return self._wanted.get(topic)

    def forget(self) -> None:
        """Forget all requested subscriptions, since they ended with the connection."""
        self._asked.clear()

    def renew(self, topic: Topic) -> None:
        """Request a topic again, because its rows are no longer consistent."""
        if topic in self._asked:
            self._asked[topic] = (self._asked[topic][0], None)

    def steps(self) -> Iterator[Step]:
        """Yield the requests that are due, and count them as sent."""
        for topic in [topic for topic in self._asked if topic not in self._wanted]:
            yield Step("unwatch", topic, self._asked.pop(topic)[0], {})
        for topic, want in list(self._wanted.items()):
            old = self._asked.get(topic)
            if old is not None and old[1] == want:
                continue
            sub = f"{topic}.{next(self._numbers)}"
            self._asked[topic] = (sub, want)
            yield Step("watch", topic, sub, want.fields())
            if old is not None:
                yield Step("unwatch", topic, old[0], {})
