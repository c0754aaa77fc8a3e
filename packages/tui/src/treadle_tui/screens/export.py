"""Writes tasks to a file: those that are marked, or the whole list."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from textual.message import Message
from textual.screen import Screen

from treadle.wire.tasks import Order, TaskFilter
from treadle_tui import files
from treadle_tui.core.draw.text import clean
from treadle_tui.core.state.marks import TaskRef
from treadle_tui.core.verbs.executor import FAILURES
from treadle_tui.core.verbs.plan import Report, tasks_word
from treadle_tui.core.verbs.requests import TaskRequests
from treadle_tui.screen_context import ScreenContext
from treadle_tui.widgets.path_prompt import PathPrompt
from treadle_tui.widgets.question import Question


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is to be written: these tasks, or those that a filter means when it is done."""

    keys: tuple[str, ...] = ()
    filter: TaskFilter | None = None
    order: Order = "position"


class ExportActions(Screen[None]):
    """A screen whose tasks can be written to a file. That happens beside it, and it is told by message."""

    ctx: ScreenContext

    @dataclass
    class Exported(Message):
        """The file is written, or can't be."""

        report: Report

    @dataclass
    class Exists(Message):
        """There is a file of that name."""

        path: Path
        wanted: Wanted

    def chosen(self) -> Sequence[TaskRef]:
        """Return the tasks that are meant."""
        return ()

    def exported(self) -> Wanted:
        """Return what is to be written."""
        return Wanted(keys=tuple(choice.id for choice in self.chosen()))

    def tell(self, report: Report) -> None:
        """Show what was done, or why not."""
        self.ctx.tell(report)

    def act_export(self) -> None:
        """Ask for a file, and write the tasks there."""
        wanted = self.exported()
        what = tasks_word(len(wanted.keys)) if wanted.filter is None else "the whole list"
        stamp = self.ctx.model.time.now().astimezone().strftime("%Y%m%d-%H%M%S")
        self.app.push_screen(
            PathPrompt(f"Write {what} to", f"~/treadle-tasks-{stamp}.json", files.completions),
            lambda typed: None if typed is None else self._export(typed, wanted),
        )

    def with_export(self, typed: str) -> None:
        """Write the tasks to the file that was named."""
        self._export(typed, self.exported())

    def _export(self, typed: str, wanted: Wanted) -> None:
        self.run_worker(self._write_out(files.path_of(typed), wanted, overwrite=False), group="export")

    async def _write_out(self, path: Path, wanted: Wanted, *, overwrite: bool) -> None:
        try:
            self.post_message(self.Exported(await self._written(path, wanted, overwrite=overwrite)))
        except FileExistsError:
            self.post_message(self.Exists(path, wanted))
        except (*FAILURES, OSError) as error:
            why = error.strerror or str(error) if isinstance(error, OSError) else str(error)
            self.post_message(self.Exported(Report(f"could not write {path}: {clean(why, limit=200)}", ok=False)))

    async def _written(self, path: Path, wanted: Wanted, *, overwrite: bool) -> Report:
        if not overwrite and await files.exists(path):
            raise FileExistsError(path)
        requests, keys, more = TaskRequests(self.ctx.feed, self.ctx.executor), wanted.keys, False
        if wanted.filter is not None:
            frozen = await requests.freeze(wanted.filter, wanted.order)
            keys, more = tuple(task.id for task in frozen.items), frozen.is_capped
        gathered = await requests.gather(keys)
        head = {
            "server": self.ctx.server_name,
            "exported_at": self.ctx.model.time.now().isoformat(),
            "filter": None if wanted.filter is None else wanted.filter.model_dump(mode="json", exclude_none=True),
            "is_capped": more,
        }
        rows = [task.model_dump(mode="json") for task in gathered.tasks]
        await files.write_json(path, {**head, "tasks": rows}, overwrite=overwrite)
        return Report(_told(len(rows), path, more=more, gone=gathered.gone), ok=not more)

    def on_export_actions_exported(self, event: Exported) -> None:
        """Tell it."""
        self.tell(event.report)

    def on_export_actions_exists(self, event: Exists) -> None:
        """Ask whether it may be overwritten."""

        def answered(key: str | None) -> None:
            if key == "y":
                self.run_worker(self._write_out(event.path, event.wanted, overwrite=True), group="export")
            else:
                self.tell(Report("nothing was written", ok=True))

        shown = clean(str(event.path), limit=300)
        self.app.push_screen(Question("There is such a file", [shown], {"y": "overwrite it"}), answered)


def _told(count: int, path: Path, *, more: bool, gone: int) -> str:
    """What was done; the path comes last, since a long one reaches beyond the line."""
    what = f"the first {tasks_word(count)}, for no more are given at once," if more else tasks_word(count)
    left_out = f" ({tasks_word(gone)} had gone)" if gone else ""
    return f"wrote {what}{left_out} to {clean(str(path), limit=300)}"
