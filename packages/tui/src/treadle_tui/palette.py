"""The command palette, made of the registry of actions."""

from collections.abc import Callable, Iterator
from functools import partial

from textual.command import DiscoveryHit, Hit, Hits, Provider

from treadle_tui.core.verbs.action import Action
from treadle_tui.core.verbs.keymap import Keymap
from treadle_tui.screens.base import BaseScreen


class ActionProvider(Provider):
    """Offers what can be done on the screen beneath the palette."""

    def _offered(self) -> Iterator[Action]:
        screen = self.screen
        if isinstance(screen, BaseScreen):
            yield from screen.ctx.offered(screen.scope)

    async def search(self, query: str) -> Hits:
        """Yield the actions whose name or help fit."""
        matcher = self.matcher(query)
        for action in self._offered():
            score = max(matcher.match(action.name), matcher.match(action.help) / 2)
            if score > 0:
                yield Hit(score, matcher.highlight(action.name), self._run(action), help=_help(action, self._keymap))

    async def discover(self) -> Hits:
        """Yield everything while nothing is typed."""
        for action in self._offered():
            yield DiscoveryHit(action.name, self._run(action), help=_help(action, self._keymap))

    @property
    def _keymap(self) -> Keymap:
        screen = self.screen
        assert isinstance(screen, BaseScreen)
        return screen.ctx.keymap

    def _run(self, action: Action) -> Callable[[], None]:
        screen = self.screen
        assert isinstance(screen, BaseScreen)
        if not screen.can(action.name):
            # It means something by what stands behind it: let that be typed.
            return partial(screen.act_command, f"{action.name} ")
        return partial(screen.act, action.name)


def _help(action: Action, keymap: Keymap) -> str:
    return f"{keymap.cap(action)}  {action.help}"
