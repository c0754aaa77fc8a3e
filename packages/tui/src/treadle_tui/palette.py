"""The command palette, generated from the registry of actions."""

from collections.abc import Callable, Iterator
from functools import partial

from textual.command import CommandPalette, DiscoveryHit, Hit, Hits, Provider
from textual.events import Click
from textual.message import Message
from textual.widgets import OptionList

from treadle_tui.core.verbs.action import Action
from treadle_tui.screens.base import BaseScreen


class Palette(CommandPalette):
    """Textual's palette, safe to double-click.

    Unlike Textual's, it has no id: the previous palette may still be open beneath what its command has just opened.
    """

    def __init__(self) -> None:
        super().__init__(placeholder="Search for commands")

    async def _on_message(self, message: Message) -> None:
        # The second click may come after the first has closed it: it would close the screen beneath it, or run the
        # action again.
        if self.is_active or not isinstance(message, Click | OptionList.OptionSelected):
            await super()._on_message(message)


class ActionProvider(Provider):
    """Offers the actions of the screen beneath the palette."""

    @property
    def _beneath(self) -> BaseScreen:
        """The screen that the palette was opened over; it is only opened over a `BaseScreen`."""
        assert isinstance(self.screen, BaseScreen)
        return self.screen

    def _offered(self) -> Iterator[Action]:
        return self._beneath.ctx.offered(self._beneath.scope)

    async def search(self, query: str) -> Hits:
        """Yield the actions whose name or help matches."""
        matcher = self.matcher(query)
        for action in self._offered():
            score = max(matcher.match(action.name), matcher.match(action.help) / 2)
            if score > 0:
                yield Hit(score, matcher.highlight(action.name), self._run(action), help=self._help(action))

    async def discover(self) -> Hits:
        """Yield all actions while nothing is typed."""
        for action in self._offered():
            yield DiscoveryHit(action.name, self._run(action), help=self._help(action))

    def _help(self, action: Action) -> str:
        return f"{self._beneath.ctx.keymap.cap(action)}  {action.help}"

    def _run(self, action: Action) -> Callable[[], None]:
        screen = self._beneath
        if not screen.can(action.name):
            # It needs an argument: open the command line for it.
            return partial(screen.act_command, f"{action.name} ")
        return partial(screen.act, action.name)
