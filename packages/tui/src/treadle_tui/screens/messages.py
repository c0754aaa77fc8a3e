"""Sends a task a message: asks for it, sends it, and asks again with the reason when it was not taken."""

from dataclasses import dataclass

from textual.message import Message

from treadle.wire.tasks import TaskItem
from treadle_tui.core.draw.format import short_id
from treadle_tui.core.verbs.executor import FAILURES
from treadle_tui.core.verbs.messages import Draft, read_line, refused, waited_for, write_name
from treadle_tui.core.verbs.plan import Report
from treadle_tui.screens.base import BaseScreen
from treadle_tui.widgets.message_prompt import MessagePrompt


class MessageActions(BaseScreen):
    """A screen of one task; what is asked runs beside it, and it is told by message."""

    @dataclass
    class Wanted(Message):
        """A message is to be written: for whom, and the name that the task waits for."""

        task: TaskItem
        draft: Draft
        waits_for: str | None
        wrong: str = ""

    @property
    def receiver(self) -> str:
        """Return the id of the task that messages are for."""
        raise NotImplementedError

    def act_send(self) -> None:
        """Ask for a message, and send it."""
        if (refusal := self.ctx.executor.off()) is not None:
            self.tell(refusal.report)
        else:
            self.open_after(self._begin(), group="message")

    def with_send(self, line: str) -> None:
        """Send what was typed: a name, and data as JSON. Raises `MessageError` when it is neither."""
        self.run_worker(self._send_line(read_line(line)), group="message")

    # These run beside the screen and tell it by message; they touch no widget.

    async def _begin(self) -> None:
        try:
            task, last = await self.requests.receiver(self.receiver)
        except FAILURES as error:
            self.post_error(error)
            return
        if (refusal := refused(task)) is not None:
            self.post_message(self.Told(refusal.report))
            return
        waits_for = waited_for(task, last)
        written = None if waits_for is None else write_name(waits_for)
        self.post_message(self.Wanted(task, Draft(written or ""), written))

    async def _send_line(self, draft: Draft) -> None:
        try:
            task = await self.requests.fetch(self.receiver)
        except FAILURES as error:
            self.post_error(error)
            return
        if (refusal := refused(task)) is not None:
            self.post_message(self.Told(refusal.report))
        else:
            await self._send(task, draft, None)

    async def _send(self, task: TaskItem, draft: Draft, waits_for: str | None) -> None:
        report = await self.requests.send(task, draft)
        if report.ok:
            self.post_message(self.Told(report))
        else:
            self.post_message(self.Wanted(task, draft, waits_for, wrong=report.text))

    def on_message_actions_wanted(self, event: Wanted) -> None:
        """Let it be written, or written again; a reader who has gone on to something else is only told."""

        def answered(draft: Draft | None) -> None:
            if draft is not None:
                self.run_worker(self._send(event.task, draft, event.waits_for), group="message")
            elif event.wrong:
                self.tell(Report(event.wrong, ok=False))

        if not self.is_current:
            if event.wrong:
                self.tell(Report(event.wrong, ok=False))
            return
        prompt = MessagePrompt(
            f"Send a message to {short_id(event.task.id)}",
            event.draft,
            waits_for=event.waits_for,
            names=self.messages(),
            wrong=event.wrong,
        )
        self.app.push_screen(prompt, answered)
