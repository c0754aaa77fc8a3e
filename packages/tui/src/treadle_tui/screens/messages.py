"""Sends a message to a task: asks for it, sends it, and asks again with the reason if that failed."""

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
    """A task's screen from which messages can be sent. Requests run in the background and report by message."""

    @dataclass
    class Wanted(Message):
        """The user is to write a message: to which task, and the name that it waits for."""

        task: TaskItem
        draft: Draft
        waits_for: str | None
        wrong: str = ""

    @property
    def receiver(self) -> str:
        """The id of the task that messages are sent to."""
        raise NotImplementedError

    def act_send(self) -> None:
        """Ask for a message, and send it."""
        if (refusal := self.ctx.executor.off()) is not None:
            self.tell(refusal.report)
        else:
            self.open_after(self._begin(), group="message")

    def with_send(self, line: str) -> None:
        """Send a typed message: a name, and data as JSON. Raises `MessageError` if it is invalid."""
        self.run_worker(self._send_line(read_line(line)), group="message")

    # These run in the background and report by message; they touch no widget.

    async def _begin(self) -> None:
        try:
            task, last = await self.requests.receiver(self.receiver)
        except FAILURES as error:
            self.post_error(error)
            return
        if (refusal := refused(task)) is not None:
            self.post_message(self.Reported(refusal.report))
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
            self.post_message(self.Reported(refusal.report))
        else:
            await self._send(task, draft, None)

    async def _send(self, task: TaskItem, draft: Draft, waits_for: str | None) -> None:
        report = await self.requests.send(task, draft)
        if report.ok:
            self.post_message(self.Reported(report))
        else:
            self.post_message(self.Wanted(task, draft, waits_for, wrong=report.text))

    def on_message_actions_wanted(self, event: Wanted) -> None:
        """Open the prompt, also after a failure; a user who has left the screen only sees the error."""

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
