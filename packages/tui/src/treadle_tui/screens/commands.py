"""The `:` line on every screen, and the commands that work on all of them."""

import re
from collections.abc import Callable, Collection, Iterable

from treadle import filters
from treadle.wire.ids import begins, is_uuid
from treadle.wire.reasons import ID_BEGINNING
from treadle_tui.core.draw.spans import SPANS, after
from treadle_tui.core.draw.text import clean
from treadle_tui.core.live.replay import STEP_SECONDS, Player, read_time
from treadle_tui.core.verbs.commands import CommandError, begun_with
from treadle_tui.core.verbs.plan import Report
from treadle_tui.screens.command_dispatch import CommandScreen
from treadle_tui.theme import THEMES


class CommandActions(CommandScreen):
    """A screen that can be told by words what to do; each `with_…` takes what stood behind a command's name."""

    # Commands with something behind them.

    def with_filter(self, text: str) -> None:
        """Show the tasks that a filter means. Raises `FilterError` for a text that is none."""
        filters.parse(text)
        self.ctx.go("filter", text)

    def with_view(self, name: str) -> None:
        """Show a saved view: the tasks of every queue that its filter means, unless it names one.

        Raises `CommandError` when there is no such view.
        """
        views = self.ctx.app_state.views
        _refuse_unknown("view", name, views)
        self.ctx.go("view", views[name])

    def act_view(self) -> None:
        """Let a saved view be chosen, or say where they are written down."""
        if self.ctx.app_state.views:
            self.act_command("view ")
        else:
            self.tell(Report("no views: the configuration file names them, as [views] mine = 'tag:user=ann'", ok=False))

    def with_tasks(self, job: str) -> None:
        """Show a queue's tasks. Raises `CommandError` unless one queue is meant."""
        self.ctx.go("tasks", self._queue(job))

    def with_open(self, part: str) -> None:
        """Open the task whose id begins, or on the screen ends, with a part; look for it when it is not here.

        Raises `CommandError` when several here are meant, and for what no id begins with.
        """
        self._go_by_id("task", "id", part, self.ctx.model.tasks.rows)

    def with_flow(self, part: str) -> None:
        """Show the flow whose id begins, or on the screen ends, with a part; list its tasks when none of them is here.

        Raises `CommandError` when several here are meant, and for what no id begins with.
        """
        model = self.ctx.model
        tasks = [*model.tasks.rows.values(), *(detail.task for detail in model.task.rows.values())]
        self._go_by_id("flow", "flow", part, {task.flow_id for task in tasks if task.flow_id is not None})

    def _go_by_id(self, what: str, key: str, part: str, here: Iterable[str]) -> None:
        part = part.lower()
        found = [one for one in here if begins(one, part) or one.endswith(part)]
        if len(found) > 1:
            raise CommandError(f"{len(found)} {what}s here fit {part}, such as {found[0]}: write more of the id")
        if found or is_uuid(part):
            self.ctx.go(what, found[0] if found else part)
        elif re.fullmatch(ID_BEGINNING, part) is None:
            raise CommandError(f'"{clean(part)}" is no {what}\'s id: that is as 0199c2d4-…, or how it begins')
        else:
            self.with_filter(f"job:* {key}:{part}")

    def with_pause_queue(self, job: str) -> None:
        """Pause a queue by its job's name. Raises `CommandError` unless one queue is meant."""
        self.tell_of(self.ctx.executor.pause_queue(self._queue(job), paused=True))

    def with_resume_queue(self, job: str) -> None:
        """Resume a queue by its job's name. Raises `CommandError` unless one queue is meant."""
        self.tell_of(self.ctx.executor.pause_queue(self._queue(job), paused=False))

    def _queue(self, name: str) -> str:
        known = self.ctx.model.queue_rows()
        found = [name] if name in known else begun_with(name, known)
        if len(found) == 1:
            return found[0]
        if not found:
            raise CommandError(f'there is no queue "{clean(name)}"; tab completes those that there are')
        raise CommandError(f'"{clean(name)}" fits {len(found)} queues, such as {clean(found[0])}: write more of it')

    def with_theme(self, name: str) -> None:
        """Show it in a theme's colours. Raises `CommandError` when there is no such theme."""
        _refuse_unknown("theme", name, THEMES)
        self.app.theme = THEMES[name].name
        self.tell(Report(f"theme {name}", ok=True))

    def act_theme(self) -> None:
        """Show it in the next theme's colours."""
        names = list(THEMES)
        now = next((index for index, name in enumerate(names) if THEMES[name].name == self.app.theme), -1)
        self.with_theme(names[(now + 1) % len(names)])

    def with_span(self, name: str) -> None:
        """Draw the charts over a time, by its name. Raises `CommandError` when there is no such one."""
        if name not in SPANS:
            raise CommandError(f'charts go over {", ".join(SPANS)}: there is no "{clean(name)}"')
        self.ctx.model.take_span(SPANS[name])

    def act_span(self) -> None:
        """Draw the charts over the next time."""
        self.ctx.model.take_span(after(self.ctx.model.span))

    def with_context(self, name: str) -> None:
        """Go to another server, by its context. Raises `CommandError` when there is no such one."""
        _refuse_unknown("context", name, self.ctx.app_state.contexts)
        self.ctx.go("context", name)

    def act_context(self) -> None:
        """Tell which contexts there are."""
        named = [
            f"{name} (here)" if name == self.ctx.connection.context else name for name in self.ctx.app_state.contexts
        ]
        told = f"contexts: {', '.join(named)}" if named else "no contexts: the configuration file names them"
        self.tell(Report(told, ok=bool(named)))

    # The replay of a recording.

    def act_play(self) -> None:
        """Stop the recording, or let it go on."""
        self._player(lambda player: player.toggle())

    def act_rewind(self) -> None:
        """Go ten seconds back."""
        self._player(lambda player: player.step(-STEP_SECONDS))

    def act_skip(self) -> None:
        """Go ten seconds on."""
        self._player(lambda player: player.step(STEP_SECONDS))

    def with_seek(self, text: str) -> None:
        """Go to a moment. Raises `ReplayError` for a text that is none."""
        self._player(lambda player: player.seek(read_time(text, player.position)))

    def with_speed(self, text: str) -> None:
        """Go faster or slower. Raises `CommandError` for a text that is no number."""
        try:
            factor = float(text.removesuffix("x"))
        except ValueError:
            raise CommandError(f'"{text}" is no factor: write 0.5 or 8') from None
        self._player(lambda player: player.run_at(factor))

    def _player(self, steer: Callable[[Player], None]) -> None:
        if self.ctx.connection.player is not None:
            steer(self.ctx.connection.player)
            self.tick()

    def tick(self) -> None:
        """Draw what tells the time."""


def _refuse_unknown(what: str, name: str, known: Collection[str]) -> None:
    if name not in known:
        listed = f"it is one of {', '.join(known)}" if known else "the configuration file has none"
        raise CommandError(f'there is no {what} "{name}": {listed}')
