"""Tasks in other programs: edited in an editor, read in a pager, copied to the clipboard."""

from collections.abc import Sequence
from dataclasses import dataclass

from textual.message import Message

from treadle_tui import external
from treadle_tui.core.draw.format import short_id
from treadle_tui.core.verbs.editor import Written, Wrong, edit_text, editable, read_edit, reading_text
from treadle_tui.core.verbs.executor import FAILURES
from treadle_tui.core.verbs.plan import Refusal, Report
from treadle_tui.screens.asking import AskingScreen
from treadle_tui.widgets.question import Question

EDIT_AGAIN = {"e": "edit again"}


class EditorActions(AskingScreen):
    """A screen whose tasks can be opened in other programs. These run in the background and report by message."""

    @dataclass
    class Edited(Message):
        """The editor was closed with this text."""

        written: Written

    @dataclass
    class Unsaved(Message):
        """The server did not accept the edit, or it is unknown whether it did."""

        written: Written
        report: Report

    def copied(self) -> str | None:
        """Return the text that `copy` puts on the clipboard."""
        return None

    def act_edit(self) -> None:
        """Edit the task in an editor; for an ended task, submit an edited copy."""
        key = self._only(self.unsafe() or self.ctx.executor.off())
        if key is not None:
            self.open_after(self._begin_edit(key), group="editor", elsewhere=True)

    def act_editor(self) -> None:
        """Show the task in the editor, without changing it."""
        self._read(external.EDITORS)

    def act_pager(self) -> None:
        """Show the task in the pager."""
        self._read(external.PAGERS)

    def act_copy(self) -> None:
        """Copy the highlighted row's name or id to the clipboard."""
        text = self.copied()
        if text is not None:
            external.copy(self.app, text)
            self.tell(Report(f"copied {text[-36:]}", ok=True))
            if not self.ctx.app_state.web:
                self.run_worker(self._copy_to_tmux(text))

    def _read(self, names: Sequence[str]) -> None:
        key = self._only(self.unsafe())
        if key is not None:
            self.open_after(self._show(key, names), group="editor", elsewhere=True)

    def _only(self, refusal: Refusal | None) -> str | None:
        chosen = self.chosen()
        if refusal is None and len(chosen) != 1:
            word = (
                "no task is highlighted"
                if not chosen
                else f"{len(chosen):,} tasks are marked: this works on a single task"
            )
            refusal = Refusal(word)
        if refusal is not None:
            self.tell(refusal.report)
            return None
        return chosen[0].id

    # In the background; results are reported by message.

    async def _begin_edit(self, key: str) -> None:
        try:
            task = await self.requests.fetch(key)
        except FAILURES as error:
            self.post_error(error)
            return
        refusal = editable(task)
        if refusal is not None:
            self.post_message(self.Reported(refusal.report))
        else:
            draft = self.ctx.drafts.get(key)
            await self._write(Written(task, edit_text(task)) if draft is None else draft.again(task))

    async def _write(self, begun: Written) -> None:
        try:
            text = await external.edit(self.app, begun.text, name=f"task-{short_id(begun.task.id)}.jsonc")
        except external.ExternalError as error:
            self.post_error(error)
        else:
            self.post_message(self.Edited(begun.edited(text)))

    async def _show(self, key: str, names: Sequence[str]) -> None:
        try:
            task = await self.requests.fetch(key)
            text = reading_text(task, self.ctx.model.time.now())
            await external.show(self.app, text, name=f"task-{short_id(key)}.txt", names=names)
        except (*FAILURES, external.ExternalError) as error:
            self.post_error(error)

    async def _copy_to_tmux(self, text: str) -> None:
        try:
            await external.copy_to_tmux(text)
        except external.ExternalError as error:
            self.post_error(error)

    async def _save(self, written: Written, changes: dict[str, object]) -> None:
        report = await self.requests.save(written.task, changes, copy_id=written.copy_id)
        if report.ok:
            self.post_message(self.Reported(report))
        else:
            self.post_message(self.Unsaved(written, report))

    def on_editor_actions_edited(self, event: Edited) -> None:
        """Save the changes, or show what is wrong with the text."""
        written = event.written
        changes = read_edit(written.text, written.task)
        if isinstance(changes, Wrong):
            self._ask_again(written, "The edit is invalid", changes.problems)
            return
        self.ctx.drafts.pop(written.task.id, None)
        if changes:
            self.run_worker(self._save(written, changes))
        else:
            self.tell(Report("nothing was changed", ok=True))

    def on_editor_actions_unsaved(self, event: Unsaved) -> None:
        """Offer to edit again, so that the text is not lost."""
        report = event.report
        title = "The server did not accept it" if report.known else "It is unknown whether the server accepted it"
        self._ask_again(event.written, title, [report.text], known=report.known)

    def _ask_again(self, written: Written, title: str, problems: Sequence[str], *, known: bool = True) -> None:
        task = written.task
        self.ctx.drafts[task.id] = written

        def answered(key: str | None) -> None:
            if key in EDIT_AGAIN:
                # With the task as it is now: it may have changed or started since.
                self.open_after(self._begin_edit(task.id), group="editor", elsewhere=True)
            else:
                edit = self.ctx.keymap.cap("edit")
                saved = "not saved" if known else "possibly saved"
                self.tell(Report(f"{saved}; press {edit} on {short_id(task.id)} to get your text back", ok=False))

        self.app.push_screen(Question(title, problems, EDIT_AGAIN), answered)
