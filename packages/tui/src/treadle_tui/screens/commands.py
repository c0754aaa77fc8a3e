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
    """A screen with the general commands; each `with_…` method takes the argument of the command of its name."""

    # Commands with an argument.

    def with_filter(self, text: str) -> None:
        """Show the tasks that match a filter. Raises `FilterError` for an invalid filter."""
        filters.parse(text)
        self.ctx.go("filter", text)

    def with_view(self, name: str) -> None:
        """Show a saved view: the matching tasks of every queue, unless its filter names one.

        Raises `CommandError` for an unknown view.
        """
        views = self.ctx.app_state.views
        _refuse_unknown("view", name, views)
        self.ctx.go("view", views[name])

    def act_view(self) -> None:
        """Let the user choose a saved view, or say where views are defined."""
        if self.ctx.app_state.views:
            self.act_command("view ")
        else:
            self.tell(
                Report("no views: add them to the configuration file, such as [views] mine = 'tag:user=ann'", ok=False)
            )

    def with_tasks(self, job: str) -> None:
        """Show a queue's tasks. Raises `CommandError` unless the name matches one queue."""
        self.ctx.go("tasks", self._queue(job))

    def with_open(self, part: str) -> None:
        """Open the task whose id starts, or on this screen ends, with a part; search for it if it is not here.

        Raises `CommandError` if several tasks here match, or if the part can't be the start of an id.
        """
        self._go_by_id("task", "id", part, self.ctx.model.tasks.rows)

    def with_flow(self, part: str) -> None:
        """Show the flow whose id starts, or on this screen ends, with a part; list matching tasks if it is not here.

        Raises `CommandError` if several flows here match, or if the part can't be the start of an id.
        """
        model = self.ctx.model
        tasks = [*model.tasks.rows.values(), *(detail.task for detail in model.task.rows.values())]
        self._go_by_id("flow", "flow", part, {task.flow_id for task in tasks if task.flow_id is not None})

    def _go_by_id(self, what: str, key: str, part: str, here: Iterable[str]) -> None:
        part = part.lower()
        found = [one for one in here if begins(one, part) or one.endswith(part)]
        if len(found) > 1:
            raise CommandError(f"{len(found)} {what}s here match {part}, such as {found[0]}: type more of the id")
        if found or is_uuid(part):
            self.ctx.go(what, found[0] if found else part)
        elif re.fullmatch(ID_BEGINNING, part) is None:
            raise CommandError(
                f'invalid {what} id "{clean(part)}": write an id such as 0199c2d4-…, or the beginning of one'
            )
        else:
            self.with_filter(f"job:* {key}:{part}")

    def with_pause_queue(self, job: str) -> None:
        """Pause a queue by its job's name. Raises `CommandError` unless the name matches one queue."""
        self.show_report_of(self.ctx.executor.pause_queue(self._queue(job), paused=True))

    def with_resume_queue(self, job: str) -> None:
        """Resume a queue by its job's name. Raises `CommandError` unless the name matches one queue."""
        self.show_report_of(self.ctx.executor.pause_queue(self._queue(job), paused=False))

    def _queue(self, name: str) -> str:
        known = self.ctx.model.queue_rows()
        found = [name] if name in known else begun_with(name, known)
        if len(found) == 1:
            return found[0]
        if not found:
            raise CommandError(f'no queue matches "{clean(name)}": tab completes the names')
        raise CommandError(f'"{clean(name)}" matches {len(found)} queues, such as {clean(found[0])}: type more of it')

    def with_theme(self, name: str) -> None:
        """Switch to a theme. Raises `CommandError` for an unknown theme."""
        _refuse_unknown("theme", name, THEMES)
        self.app.theme = THEMES[name].name
        self.tell(Report(f"theme {name}", ok=True))

    def act_theme(self) -> None:
        """Switch to the next theme."""
        names = list(THEMES)
        now = next((index for index, name in enumerate(names) if THEMES[name].name == self.app.theme), -1)
        self.with_theme(names[(now + 1) % len(names)])

    def with_span(self, name: str) -> None:
        """Set the time span of the charts. Raises `CommandError` for an unknown span."""
        if name not in SPANS:
            raise CommandError(f'unknown span "{clean(name)}": use one of {", ".join(SPANS)}')
        self.ctx.model.take_span(SPANS[name])

    def act_span(self) -> None:
        """Switch to the next time span of the charts."""
        self.ctx.model.take_span(after(self.ctx.model.span))

    def with_context(self, name: str) -> None:
        """Switch to another server by its context. Raises `CommandError` for an unknown context."""
        _refuse_unknown("context", name, self.ctx.app_state.contexts)
        self.ctx.go("context", name)

    def act_context(self) -> None:
        """List the contexts."""
        named = [
            f"{name} (here)" if name == self.ctx.connection.context else name for name in self.ctx.app_state.contexts
        ]
        told = f"contexts: {', '.join(named)}" if named else "no contexts: add them to the configuration file"
        self.tell(Report(told, ok=bool(named)))

    # Replay controls.

    def act_play(self) -> None:
        """Pause or resume the replay."""
        self._player(lambda player: player.toggle())

    def act_rewind(self) -> None:
        """Go ten seconds back."""
        self._player(lambda player: player.step(-STEP_SECONDS))

    def act_skip(self) -> None:
        """Go ten seconds forward."""
        self._player(lambda player: player.step(STEP_SECONDS))

    def with_seek(self, text: str) -> None:
        """Go to a time in the recording. Raises `ReplayError` for an invalid time."""
        self._player(lambda player: player.seek(read_time(text, player.position)))

    def with_speed(self, text: str) -> None:
        """Change the speed. Raises `CommandError` for an invalid number, and `ReplayError` if it is out of bounds."""
        try:
            factor = float(text.removesuffix("x"))
        except ValueError:
            raise CommandError(f'invalid speed "{text}": write a factor such as 0.5 or 8') from None
        self._player(lambda player: player.run_at(factor))

    def _player(self, steer: Callable[[Player], None]) -> None:
        if self.ctx.connection.player is not None:
            steer(self.ctx.connection.player)
            self.tick()

    def tick(self) -> None:
        """Draw what depends on the time."""


def _refuse_unknown(what: str, name: str, known: Collection[str]) -> None:
    if name not in known:
        listed = f"use one of {', '.join(known)}" if known else "the configuration file has none"
        raise CommandError(f'unknown {what} "{name}": {listed}')
