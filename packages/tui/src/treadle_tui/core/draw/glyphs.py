"""The glyph, word and tone of every state, in Unicode and in ASCII."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from treadle.wire.status import Status
from treadle.wire.targets import TargetCause
from treadle_tui.core.draw.text import SHOWN, Tone, clean

QueueState: TypeAlias = Literal["open", "paused", "starved"]
Health: TypeAlias = Literal["online", "busy", "away", "late", "draining", "lost"]
ScheduleState: TypeAlias = Literal["waits", "open", "skips", "late", "paused"]
LimitState: TypeAlias = Literal["open", "full"]
TargetState: TypeAlias = Literal["free"] | TargetCause
Link: TypeAlias = Literal["connecting", "live", "gone", "refused", "denied"]


@dataclass(frozen=True, slots=True)
class Glyphs:
    """A set of glyphs; each is one cell wide, and `parts` and `spark` are strings of several."""

    task: dict[Status, str]
    queue: dict[QueueState, str]
    worker: dict[Health, str]
    target: dict[TargetState, str]
    schedule: dict[ScheduleState, str]
    limit: dict[LimitState, str]
    retry: str
    full: str
    """A thin line, so that bars on neighbouring rows don't merge into a block; hence `spark` is never full either."""
    empty: str
    parts: str
    """Fillings of a bar's last cell, from almost empty to almost full."""
    spark: str
    """Levels of a sparkline; the first one is zero."""
    dot: str
    ring: str
    cross: str
    ellipsis: str
    rule: str
    rail: str
    branch: str
    turn: str
    arrow: str
    beat: str
    """A heartbeat that came."""
    missed: str
    """An expected heartbeat that did not come."""
    opened: str
    """In front of an unfolded container."""
    folded: str
    ditto: str
    """The same as in a row above."""
    ascii_only: bool

    def clean(self, text: str, *, limit: int = SHOWN) -> str:
        """Return the beginning of an external text, made safe to draw, in the characters of this set."""
        return clean(text, limit=limit, ascii_only=self.ascii_only)


UNICODE = Glyphs(
    task={
        Status.SCHEDULED: "◷",
        Status.BLOCKED: "◇",
        Status.PENDING: "○",
        Status.CLAIMED: "◐",
        Status.RUNNING: "●",
        Status.PAUSED: "‖",
        Status.COMPLETED: "✓",
        Status.FAILED: "✗",
        Status.CANCELLED: "⊘",
    },
    queue={"open": "●", "paused": "‖", "starved": "✗"},
    worker={"online": "○", "busy": "●", "away": "◌", "late": "!", "draining": "◐", "lost": "✗"},
    target={
        "free": "○",
        "claimed": "◐",
        "running": "●",
        "paused": "‖",
        "failed": "✗",
        "retry": "↻",
        "stopping": "◌",
    },
    schedule={"waits": "◷", "open": "●", "skips": "!", "late": "!", "paused": "‖"},
    limit={"open": "○", "full": "●"},
    retry="↻",
    full="━",
    empty="─",
    parts="╸",
    spark="▁▂▃▄▅▆▇",
    dot="●",
    ring="○",
    cross="✗",
    ellipsis="…",
    rule="─",
    rail="│",
    branch="├",
    turn="└",
    arrow="→",
    beat="▮",
    missed="▯",
    opened="▾",
    folded="▸",
    ditto="″",
    ascii_only=False,
)

ASCII = Glyphs(
    task={
        Status.SCHEDULED: "~",
        Status.BLOCKED: "&",
        Status.PENDING: ".",
        Status.CLAIMED: ">",
        Status.RUNNING: "*",
        Status.PAUSED: "=",
        Status.COMPLETED: "+",
        Status.FAILED: "x",
        Status.CANCELLED: "-",
    },
    queue={"open": "*", "paused": "=", "starved": "x"},
    worker={"online": ".", "busy": "*", "away": "-", "late": "!", "draining": ">", "lost": "x"},
    target={
        "free": ".",
        "claimed": ">",
        "running": "*",
        "paused": "=",
        "failed": "x",
        "retry": "~",
        "stopping": "-",
    },
    schedule={"waits": "~", "open": "*", "skips": "!", "late": "!", "paused": "="},
    limit={"open": ".", "full": "*"},
    retry="~",
    full="#",
    empty=".",
    parts="",
    spark="_.-:=+*#",
    dot="*",
    ring="o",
    cross="x",
    ellipsis="~",
    rule="-",
    rail="|",
    branch="|",
    turn="`",
    arrow=">",
    beat="|",
    missed=".",
    opened="-",
    folded="+",
    ditto='"',
    ascii_only=True,
)

TASK_TONES: dict[Status, Tone] = {
    Status.SCHEDULED: "dim",
    Status.BLOCKED: "dim",
    Status.PENDING: "wait",
    Status.CLAIMED: "run",
    Status.RUNNING: "run",
    Status.PAUSED: "hold",
    Status.COMPLETED: "ok",
    Status.FAILED: "bad",
    Status.CANCELLED: "dim",
}

QUEUE_TONES: dict[QueueState, Tone] = {"open": "ok", "paused": "hold", "starved": "bad"}
WORKER_TONES: dict[Health, Tone] = {
    "online": "ok",
    "busy": "run",
    "away": "warn",
    "late": "warn",
    "draining": "hold",
    "lost": "bad",
}
SCHEDULE_TONES: dict[ScheduleState, Tone] = {
    "waits": "dim",
    "open": "run",
    "skips": "warn",
    "late": "warn",
    "paused": "hold",
}
LIMIT_TONES: dict[LimitState, Tone] = {"open": "dim", "full": "warn"}
TARGET_TONES: dict[TargetState, Tone] = {
    "free": "dim",
    "claimed": "run",
    "running": "run",
    "paused": "hold",
    "failed": "bad",
    "retry": "warn",
    "stopping": "hold",
}
