"""Steps and messages in a batch: what its commands need to have read, what was read, and what they changed."""

from collections import Counter
from dataclasses import dataclass, field

from treadle.wire.ids import TaskId
from treadle_server.domain.steps import Message, MessageKey, Step, StepKey


@dataclass(slots=True)
class StepReads:
    """What commands need to have read. Hardly any batch needs any of it."""

    keys: set[tuple[TaskId, str, int]] = field(default_factory=set)
    """Steps by task, name and occurrence."""
    waits: set[TaskId] = field(default_factory=set)
    """Tasks for which the step that they wait in is wanted."""
    sends: set[tuple[TaskId, str, str]] = field(default_factory=set)
    """Messages to be sent, by task, name and id: wanted if they exist already, with the step that the task waits in."""
    receives: Counter[tuple[TaskId, str]] = field(default_factory=Counter)
    """How many of the oldest waiting messages are wanted, by task and name."""

    def __bool__(self) -> bool:
        return bool(self.keys or self.waits or self.sends or self.receives)

    def want_step(self, task_id: TaskId, name: str, occurrence: int, *, receives: bool) -> None:
        """Want a step, if it is kept already; if it `receives`, also the next message of its name."""
        self.keys.add((task_id, name, occurrence))
        if receives:
            self.receives[task_id, name] += 1


@dataclass(slots=True)
class StepBook:
    """What one batch knows and changes of steps and messages."""

    kept: dict[StepKey, Step] = field(default_factory=dict)
    last: dict[int, Step] = field(default_factory=dict)
    """The last steps of tasks in `StepReads.waits` and of tasks that messages are sent to, by the task's seq."""
    worked: dict[int, int] = field(default_factory=dict)
    """For those of them whose last run had no worker: the last run that had one, by seq."""
    messages: dict[MessageKey, Message] = field(default_factory=dict)
    waiting: dict[tuple[int, str], list[Message]] = field(default_factory=dict)
    """The oldest waiting messages, as many as may be received, by task seq and name."""
    counts: dict[int, tuple[int, int]] = field(default_factory=dict)
    """How many messages wait for a task, and the number that the next one gets, by the task's seq."""
    new_steps: list[Step] = field(default_factory=list)
    changed: list[Step] = field(default_factory=list)
    """Waiting steps that have received their message, or now wait until another time."""
    cleared: dict[int, int] = field(default_factory=dict)
    """Tasks whose steps are deleted, by seq, with the number of the first step to go."""
    emptied: set[int] = field(default_factory=set)
    """Tasks whose messages are deleted, by seq."""
    new_messages: list[Message] = field(default_factory=list)
    taken: list[Message] = field(default_factory=list)
    """Messages that were read and are received in this batch."""

    def __bool__(self) -> bool:
        return bool(self.new_steps or self.changed or self.cleared or self.emptied or self.new_messages or self.taken)

    def add_step(self, step: Step) -> None:
        """Add a step."""
        self.new_steps.append(step)
        self.kept[step.key] = self.last[step.task_seq] = step

    def change(self, step: Step) -> None:
        """Note that a step was changed."""
        if step not in self.new_steps and step not in self.changed:
            self.changed.append(step)

    def count(self, seq: int) -> tuple[int, int]:
        """Return how many messages wait for a task, and the number that the next one gets; a new task has none."""
        return self.counts.get(seq, (0, 0))

    def next_message(self, seq: int, name: str) -> Message | None:
        """Return the oldest message of this name that waits for the task."""
        waiting = self.waiting.get((seq, name))
        return waiting[0] if waiting else None

    def take(self, message: Message, step: Step) -> None:
        """Let a step receive a waiting message; the next receive of that name gets the one after it."""
        self.waiting[message.task_seq, message.name].remove(message)
        waits, following = self.counts.get(message.task_seq, (1, 0))
        self.counts[message.task_seq] = (waits - 1, following)
        message.step = step.number
        if message not in self.new_messages:
            self.taken.append(message)

    def add_message(self, message: Message) -> None:
        """Add a waiting message."""
        waits, following = self.count(message.task_seq)
        self.counts[message.task_seq] = (waits + 1, following + 1)
        self.new_messages.append(message)
        self.messages[message.key] = message
        self.waiting.setdefault((message.task_seq, message.name), []).append(message)

    def clear(self, seq: int, first: int, *, keeps_messages: bool) -> None:
        """Delete a task's steps from a number on; the messages they received wait again, or all messages are deleted.

        Since additions are written after deletions, the steps and messages added by this batch are dropped here.
        """
        self.cleared[seq] = min(first, self.cleared.get(seq, first))

        def stays(step: Step) -> bool:
            return step.task_seq != seq or step.number < first

        self.kept = {key: step for key, step in self.kept.items() if stays(step)}
        self.last = {task: step for task, step in self.last.items() if stays(step)}
        self.new_steps = [step for step in self.new_steps if stays(step)]
        self.changed = [step for step in self.changed if stays(step)]
        if keeps_messages:
            self._free(seq, first)
        else:
            self._empty(seq)

    def _free(self, seq: int, first: int) -> None:
        """Let the messages that steps from a number on have received wait again."""
        for message in (*self.new_messages, *self.messages.values(), *self.taken):
            if message.task_seq == seq and message.step is not None and message.step >= first:
                message.step = None
        self.taken = [message for message in self.taken if message.step is not None]

    def _empty(self, seq: int) -> None:
        """Delete all messages of the task."""
        self.emptied.add(seq)
        self.messages = {key: one for key, one in self.messages.items() if one.task_seq != seq}
        self.waiting = {key: several for key, several in self.waiting.items() if key[0] != seq}
        self.new_messages = [one for one in self.new_messages if one.task_seq != seq]
        self.taken = [one for one in self.taken if one.task_seq != seq]
        if seq in self.counts:
            self.counts[seq] = (0, self.counts[seq][1])
