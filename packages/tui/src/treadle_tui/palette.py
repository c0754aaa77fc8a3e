"""The command palette, made of the registry of actions."""

from collections.abc import Callable, Iterator
from functools import partial

from textual.command import DiscoveryHit, Hit, Hits, Provider

from treadle_tui.core.actions import Action
from treadle_tui.core.keymap import Keymap
from treadle_tui.screens.board import Board


class ActionProvider(Provider):
    """Offers what can be done on the screen beneath the palette."""

    def _offered(self) -> Iterator[Action]:
        board = self.screen
        if isinstance(board, Board):
            yield from board.desk.offered(board.scope)

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
        board = self.screen
        assert isinstance(board, Board)
        return board.desk.shell.keymap

    def _run(self, action: Action) -> Callable[[], None]:
        board = self.screen
        assert isinstance(board, Board)
        if not board.can(action.name):
            # It means something by what stands behind it: let that be typed.
            return partial(board.act_command, f"{action.name} ")
        return partial(board.act, action.name)


def _help(action: Action, keymap: Keymap) -> str:
    return f"{keymap.cap(action)}  {action.help}"
