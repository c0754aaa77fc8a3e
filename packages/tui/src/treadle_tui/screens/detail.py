"""A task's screen: its state, timeline, artifacts, error, payload, result, checkpoint, logs and events."""

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.widgets import ContentSwitcher

from treadle.wire.status import Status
from treadle.wire.tasks import TaskItem
from treadle_tui.bindings import bindings
from treadle_tui.core.draw.format import total
from treadle_tui.core.draw.text import Span, clean
from treadle_tui.core.draw.wrapping import shortened, wrapped
from treadle_tui.core.live.subscriptions import Want
from treadle_tui.core.state.detail import TaskDetail
from treadle_tui.core.state.marks import TaskRef
from treadle_tui.core.state.model import Dirty
from treadle_tui.core.verbs.action import Action
from treadle_tui.core.verbs.actions import MOVES
from treadle_tui.core.verbs.messages import names_of
from treadle_tui.core.verbs.plan import Refusal, Report
from treadle_tui.core.verbs.reruns import steps_of
from treadle_tui.core.verbs.scopes import Scope
from treadle_tui.core.views.artifacts import artifact_lines
from treadle_tui.core.views.empty_states import coming
from treadle_tui.core.views.pane import GONE
from treadle_tui.core.views.sheets import SHEETS, Sheets
from treadle_tui.core.views.task_header import header
from treadle_tui.core.views.timeline import timeline
from treadle_tui.screen_context import ScreenContext
from treadle_tui.screens.messages import MessageActions
from treadle_tui.screens.rerun import RerunActions
from treadle_tui.widgets.reader import Reader
from treadle_tui.widgets.search import Search
from treadle_tui.widgets.styled_text import StyledText
from treadle_tui.widgets.tab_bar import Tab, TabBar

RUNS = "runs"
"""The timeline as a sheet of its own, for when the screen is too narrow for a rail, or too low for all of it."""


class Detail(MessageActions, RerunActions):
    """Subscribes to the task while it is in front."""

    WATCHES: ClassVar[Dirty] = Dirty.LINK | Dirty.TASK
    BINDINGS = bindings("detail")

    def __init__(self, ctx: ScreenContext, task_id: str) -> None:
        super().__init__(ctx)
        self._task_id = task_id
        self.wants = Want("task", task_id=task_id)
        self._header = StyledText(id="header", fades=True)
        self._rail = Reader(id="rail", follow=True)
        self._tabs = TabBar(id="tabs")
        self._readers = {RUNS: Reader(id=f"sheet-{RUNS}", follow=True, shows_lines=True)}
        self._readers |= {
            name: Reader(id=f"sheet-{name}", follow=name == "logs", cursor=True, shows_lines=True) for name in SHEETS
        }
        self._switcher = ContentSwitcher(*self._readers.values(), initial="sheet-payload", id="switcher")
        self._search = Search()
        self._notice = StyledText(id="notice-line")
        self._sheets = Sheets(ctx.glyphs, ctx.keymap.cap("fold"))
        self._active = "payload"
        self._chose_sheet = False

    def body(self) -> ComposeResult:
        """Yield the header, the rail and the sheets."""
        yield self._header
        with Horizontal(id="task"):
            yield self._rail
            with Vertical(id="sheets"):
                yield self._tabs
                yield self._switcher
        yield self._search
        yield self._notice

    def on_mount(self) -> None:
        """Start with the focus in the sheet."""
        self._rail.set_titles((Span("Runs", "title"),))
        self._reader.focus()

    @property
    def scope(self) -> Scope:
        """The scope of a task's keys."""
        return "detail"

    @property
    def detail(self) -> TaskDetail | None:
        """The task as loaded; None until then."""
        return self.ctx.model.task.rows.get(self._task_id)

    @property
    def _known(self) -> TaskItem | None:
        """The task as loaded, or until then as the list has it, since keys come faster than answers; otherwise None."""
        if self.detail is not None:
            return self.detail.task
        return None if self.ctx.model.task.ready else self.ctx.model.tasks.rows.get(self._task_id)

    def chosen(self) -> Sequence[TaskRef]:
        """Return the task."""
        return [] if self._known is None else [self._known]

    def unsafe(self) -> Refusal | None:
        """Return that the task is gone, if it is."""
        return Refusal("this task is gone") if self._known is None and self.ctx.model.task.ready else None

    def copied(self) -> str | None:
        """Return the task's id."""
        return self._task_id

    @property
    def receiver(self) -> str:
        """The task that messages are sent to."""
        return self._task_id

    def messages(self) -> Sequence[str]:
        """Return the names of the messages that the task's code has asked for."""
        return () if self.detail is None else names_of(self.detail.events)

    def steps(self) -> Sequence[str]:
        """Return the names of the task's kept steps."""
        return () if self.detail is None else steps_of(self.detail.events)

    def steps_left_out(self) -> int:
        """Return how many earlier steps are not loaded."""
        return 0 if self.detail is None else self.detail.steps_left_out

    # Drawing.

    @property
    def is_stale(self) -> bool:
        """Whether the data is out of date, or the task no longer exists."""
        return super().is_stale or (self._chose_sheet and self.detail is None)

    def draw(self, dirty: Dirty) -> None:
        """Draw the task."""
        if self.detail is not None:
            for name, document in self._sheets.write(self.detail).items():
                self._readers[name].show(document, capped=name == "logs" and self.detail.logs_are_capped)
            if not self._chose_sheet:
                # Show what the user most likely came for: a failed task's error, or a running task's log.
                self._chose_sheet = True
                self._turn_to(_first_sheet(self.detail.task))
        self.draw_ages()
        self.show_keys()

    def draw_ages(self) -> None:
        """Update the ages in the header and the rail."""
        ctx, cells = self.ctx, self._header.size.width or self.size.width
        self._notice.show_whole([(Span(" "), *ctx.notice())])
        if self.detail is None:
            refusal = ctx.model.task.refusal
            words = clean(refusal) if refusal is not None else _waiting(ctx, was_here=self._chose_sheet)
            absent = (Span(f" {clean(self._task_id)}  ", "bold"), Span(words, "dim"))
            self._header.show(wrapped(absent, cells, indent=1))
            return
        name, *facts = header(self.detail, ctx.cell_context(), trace_url=ctx.app_state.trace_url)
        self._header.show([name, *(shortened(line, cells, ellipsis=ctx.glyphs.ellipsis) for line in facts)])
        for reader in (self._rail, self._readers[RUNS]):
            cells = reader.size.width
            told = timeline(self.detail, ctx.model.now(), ctx.glyphs, cells)
            reader.show([*told, *artifact_lines(self.detail, ctx.glyphs, cells)])
        count = len(self.detail.runs) + self.detail.runs_left_out
        runs = (Span("Runs", "title"), Span(f"  {count:,}" if count else "", "dim"))
        self._rail.set_titles(ctx.aged(runs, "task"))
        self._show_tabs()

    @property
    def _names(self) -> tuple[str, ...]:
        is_seen = self._rail.display and self._rail.size.width and self._rail.shows_all
        return SHEETS if is_seen else (RUNS, *SHEETS)

    def _show_tabs(self) -> None:
        assert self.detail is not None
        task = self.detail.task
        failed = sum(bool(run.error or run.traceback or run.left_out) for run in self.detail.runs)
        full = {
            RUNS: len(self.detail.runs),
            "error": failed or bool(task.error),
            "payload": bool(task.payload),
            "result": task.result is not None,
            "checkpoint": task.checkpoint is not None,
            "logs": len(self.detail.logs),
            "events": len(self.detail.events),
        }
        runs = len(self.detail.runs) + self.detail.runs_left_out
        counts = {RUNS: runs, "error": failed if failed > 1 else 0, "logs": len(self.detail.logs)}
        capped = {"logs"} if self.detail.logs_are_capped else set()
        words = {name: total(count, capped=name in capped) for name, count in counts.items() if count}
        tabs = [Tab(name, name.capitalize(), words.get(name, ""), is_empty=not full[name]) for name in self._names]
        self._tabs.show_tabs(tabs, self._active)

    # Actions.

    def act(self, name: str) -> None:
        """Pass moves to the open sheet."""
        if name in MOVES:
            self._reader.move(name)
        else:
            super().act(name)

    def act_left(self) -> None:
        """Scroll long lines to the left."""
        self._reader.move("left")

    def act_right(self) -> None:
        """Scroll long lines to the right."""
        self._reader.move("right")

    def act_back(self) -> None:
        """End the search, or go back to the list."""
        if self._reader.found_words:
            self._reader.search("")
        else:
            self.ctx.go("back")

    def offers(self, action: Action) -> bool:
        """Offer the flow only if the task belongs to one."""
        return action.name != "flow" or (self._known is not None and self._known.flow_id is not None)

    def act_flow(self) -> None:
        """Show the task's flow."""
        task = self._known
        if task is None:
            self.tell(Report("this task is not loaded", ok=False))
        elif task.flow_id is None:
            self.tell(Report("this task belongs to no flow", ok=False))
        else:
            self.ctx.go("flow", f"{task.flow_id} {task.id}")

    def act_next_sheet(self) -> None:
        """Go to the next sheet."""
        self._turn(1)

    def act_last_sheet(self) -> None:
        """Go to the previous sheet."""
        self._turn(-1)

    def act_filter(self) -> None:
        """Search the sheet."""
        self._search.begin()

    def act_next_match(self) -> None:
        """Go to the next match."""
        self._reader.next_match(1)

    def act_last_match(self) -> None:
        """Go to the previous match."""
        self._reader.next_match(-1)

    def act_wrap(self) -> None:
        """Wrap long lines, or cut them off."""
        self._reader.wrap()

    def act_fold(self) -> None:
        """Fold or unfold the block that begins on the cursor's line."""
        self._reader.fold()

    def act_follow(self) -> None:
        """Go to the end, and follow it."""
        self._reader.move("bottom")
        self._reader.follow()

    def on_search_wanted(self, event: Search.Wanted) -> None:
        """Search for the text."""
        self._reader.focus()
        self._reader.search(event.text)

    def on_tab_bar_chosen(self, event: TabBar.Chosen) -> None:
        """Open the sheet whose tab was clicked."""
        self._turn_to(event.name)

    def _turn(self, by: int) -> None:
        names = self._names
        here = names.index(self._active) if self._active in names else 0
        self._turn_to(names[(here + by) % len(names)])

    def _turn_to(self, name: str) -> None:
        self._active = name
        self._switcher.current = f"sheet-{name}"
        self._reader.focus()
        if self.detail is not None:
            self._show_tabs()

    @property
    def _reader(self) -> Reader:
        return self._readers[self._active]


def _waiting(ctx: ScreenContext, *, was_here: bool) -> str:
    if not ctx.model.task.ready:
        return coming(ctx.model)
    back = f"Press {ctx.keymap.cap('back')} to go back."
    if was_here:
        return f"This task is {GONE}. Below is its last state. {back}"
    return f"No such task: it was pruned, this token can't see it, or the id belongs to another server. {back}"


def _first_sheet(task: TaskItem) -> str:
    match task.status:
        case Status.RUNNING:
            return "logs"
        case Status.COMPLETED:
            return "result"
        case _:
            return "error" if task.error else "payload"
