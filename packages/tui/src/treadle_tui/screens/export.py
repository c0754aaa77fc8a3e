"""Exports the marked tasks, or the whole list of whatever is shown, to a file."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from textual.message import Message

from treadle.wire.filters import Order, TaskFilter
from treadle_tui import files
from treadle_tui.core.draw.text import clean
from treadle_tui.core.verbs.executor import FAILURES
from treadle_tui.core.verbs.plan import Report
from treadle_tui.screens.asking import AskingScreen
from treadle_tui.widgets.path_prompt import PathPrompt
from treadle_tui.widgets.question import Question


@dataclass(frozen=True, slots=True)
class ExportRequest:
    """What to write: these tasks, those that match a filter when it is written, or other rows as they are."""

    keys: tuple[str, ...] = ()
    filter: TaskFilter | None = None
    order: Order = "position"
    rows: tuple[Mapping[str, Any], ...] | None = None
    """The rows of a list of something other than tasks."""
    what: str = "tasks"
    """What the rows are, in the plural."""

    @property
    def title(self) -> str:
        """A description of what is written."""
        return (
            "the whole list"
            if self.filter is not None
            else self.counted(len(self.keys if self.rows is None else self.rows))
        )

    def counted(self, count: int) -> str:
        """Return `1 task`, `13 workers`."""
        return f"{count:,} {self.what.removesuffix('s') if count == 1 else self.what}"


class ExportActions(AskingScreen):
    """A screen whose list can be exported to a file. That runs in the background and reports by message."""

    @dataclass
    class Exists(Message):
        """A file of that name exists."""

        path: Path
        request: ExportRequest

    def exported(self) -> ExportRequest:
        """Return what to write."""
        return ExportRequest(keys=tuple(choice.id for choice in self.chosen()))

    def act_export(self) -> None:
        """Ask for a file name, and write the list to it."""
        request = self.exported()
        if request.rows == ():
            self.tell(Report(f"there are no {request.what} to export", ok=False))
            return
        stamp = self.ctx.model.time.now().astimezone().strftime("%Y%m%d-%H%M%S")
        self.app.push_screen(
            PathPrompt(f"Write {request.title} to", f"~/treadle-{request.what}-{stamp}.json", files.completions),
            lambda typed: None if typed is None else self._export(typed, request),
        )

    def with_export(self, typed: str) -> None:
        """Write the list to the given file."""
        self._export(typed, self.exported())

    def _export(self, typed: str, request: ExportRequest) -> None:
        self.open_after(self._look_for(files.path_of(typed), request), group="export-question")

    async def _look_for(self, path: Path, request: ExportRequest) -> None:
        # Separate from writing, which may take long: keys typed meanwhile only wait for the question.
        try:
            is_there = await files.exists(path)
        except OSError as error:
            self.post_message(self.Reported(_unwritten(path, error)))
            return
        if is_there:
            self.post_message(self.Exists(path, request))
        else:
            self.run_worker(self._write_out(path, request, overwrite=False), group="export")

    async def _write_out(self, path: Path, request: ExportRequest, *, overwrite: bool) -> None:
        try:
            self.post_message(self.Reported(await self._written(path, request, overwrite=overwrite)))
        except FileExistsError:
            self.post_message(self.Exists(path, request))
        except (*FAILURES, OSError) as error:
            self.post_message(self.Reported(_unwritten(path, error)))

    async def _written(self, path: Path, request: ExportRequest, *, overwrite: bool) -> Report:
        rows, more, gone = await self._tasks(request) if request.rows is None else (request.rows, False, 0)
        head = {
            "server": self.ctx.connection.server_name,
            "exported_at": self.ctx.model.time.now().isoformat(),
            "filter": None if request.filter is None else request.filter.model_dump(mode="json", exclude_none=True),
            "is_capped": more,
        }
        await files.write_json(path, {**head, request.what: list(rows)}, overwrite=overwrite)
        return Report(_told(request, len(rows), path, more=more, gone=gone), ok=not more)

    async def _tasks(self, request: ExportRequest) -> tuple[Sequence[Mapping[str, Any]], bool, int]:
        """Return the complete tasks, whether there are more than can be named at once, and how many no longer exist."""
        keys, more = request.keys, False
        if request.filter is not None:
            frozen = await self.requests.freeze(request.filter, request.order)
            keys, more = tuple(task.id for task in frozen.items), frozen.is_capped
        gathered = await self.requests.gather(keys)
        return [task.model_dump(mode="json") for task in gathered.tasks], more, gathered.gone

    def on_export_actions_exists(self, event: Exists) -> None:
        """Ask whether to overwrite the file."""

        def answered(key: str | None) -> None:
            if key == "y":
                self.run_worker(self._write_out(event.path, event.request, overwrite=True), group="export")
            else:
                self.tell(Report("nothing was written", ok=True))

        shown = clean(str(event.path), limit=300)
        self.app.push_screen(Question("This file already exists", [shown], {"y": "overwrite it"}), answered)


def _unwritten(path: Path, error: Exception) -> Report:
    why = error.strerror or str(error) if isinstance(error, OSError) else str(error)
    return Report(f"could not write {path}: {clean(why, limit=200)}", ok=False)


def _told(request: ExportRequest, count: int, path: Path, *, more: bool, gone: int) -> str:
    """Describe what was done; the path comes last, since a long one doesn't fit on the line."""
    counted = request.counted(count)
    what = f"the first {counted}, the most that can be exported at once," if more else counted
    left_out = f" ({request.counted(gone)} already gone)" if gone else ""
    return f"wrote {what}{left_out} to {clean(str(path), limit=300)}"
