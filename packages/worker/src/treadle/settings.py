"""What the SDK and the command read from the environment: `TREADLE_*`."""

from pathlib import Path
from typing import Annotated, Any, ClassVar
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, ValidationError, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from treadle.errors import TreadleError
from treadle.wire.fields import MOST_MULTIPLIER, MOST_RANDOMIZATION, MOST_TRIES, TEN_YEARS
from treadle.wire.log_lines import Style
from treadle.wire.names import InvalidRoom, Room, parse_room
from treadle.wire.paths import UserPath, default_data_dir
from treadle.wire.reasons import reason

TOKEN_FILE = "token"  # noqa: S105 - a file's name, no secret


TOKEN_VARIABLE = "TREADLE_TOKEN"  # noqa: S105 - as above
"""The variable that holds the token, in upper or lower case."""


SECRET_VARIABLES = frozenset({TOKEN_VARIABLE, "TREADLE_ENCRYPTION_KEYS", "TREADLE_ENCRYPTION_KEYS_FILE"})
"""The variables that code in a child process has no use for: its run has a credential, and is given plain values."""


class InvalidSetting(TreadleError, ValueError):
    """An environment variable or argument holds what can't be used."""


Budget = Annotated[int, Field(ge=0, le=MOST_TRIES)]
"""Retries or requeues, as many as the server takes."""


class Settings(BaseSettings):
    """Settings of workers, clients and the command. An argument in code or on the command line goes before them.

    Raises `InvalidSetting`, which names the variable and the value.
    """

    model_config: ClassVar[SettingsConfigDict] = SettingsConfigDict(
        env_prefix="TREADLE_", extra="ignore", env_ignore_empty=True
    )

    url: str = "http://127.0.0.1:7420"
    """Where the server is; several URLs of one cluster, separated by commas, are tried in turn."""
    token: SecretStr | None = None
    """The token to show; left out, the one that a local server wrote to its data directory, to loopback addresses."""
    encryption_keys: SecretStr | None = None
    """Keys that encrypt what encrypted tasks carry, separated by commas: the first one encrypts, all decrypt."""
    encryption_keys_file: UserPath | None = None
    """A file with such keys, one on each line, when `encryption_keys` has none."""
    data_dir: UserPath = Field(default_factory=default_data_dir)
    """Where a local server keeps its database and its first token."""
    room: Room = "@global"
    """The room that tasks are submitted from."""
    outbox_database_url: SecretStr | None = None
    """The database whose outbox `treadle outbox` hands over, as SQLAlchemy's URLs name it."""
    broker: str | None = None
    """`module:broker`: the taskiq broker of an `InternalRegistry` that is given none; left out, one in memory."""

    capture_output: bool = True
    """Whether what a task's code logs and prints goes to the log of its task too."""

    log_format: Style = "console"
    """How a worker's process writes its log: lines to read, or an object a line."""

    max_retries: Budget = 3
    """How often a task is tried again after its code failed, unless the decorator or the call say otherwise."""
    max_requeues: Budget = 5
    """How often a task is put back after its worker was lost."""
    retry_base: Annotated[float, Field(ge=0, le=TEN_YEARS, allow_inf_nan=False)] = 5.0
    """Seconds before the first retry."""
    retry_multiplier: Annotated[float, Field(ge=1, le=MOST_MULTIPLIER)] = 2.0
    """By how much each further delay is longer."""
    retry_randomization: Annotated[float, Field(ge=0, le=MOST_RANDOMIZATION)] = 0.0
    """The share of the delay that is added at random, at most."""
    timeout: Annotated[float, Field(gt=0, le=TEN_YEARS, allow_inf_nan=False)] | None = None
    """Seconds that a run may take; left out, as long as it wants."""

    def __init__(self, **values: Any) -> None:
        try:
            super().__init__(**values)
        except ValidationError as error:
            places = (
                f"TREADLE_{'_'.join(map(str, detail['loc'])).upper()}: {reason(detail)}"
                for detail in error.errors(include_url=False)
            )
            raise InvalidSetting("; ".join(places)) from None

    @field_validator("url")
    @classmethod
    def _urls_are_http(cls, value: str) -> str:
        split_urls(value)
        return value

    @property
    def urls(self) -> tuple[str, ...]:
        """The servers to try, in order, each without a trailing slash."""
        return split_urls(self.url)

    @property
    def token_path(self) -> Path:
        """The file that a local server writes its first token to."""
        return self.data_dir / TOKEN_FILE

    def read_local_token(self) -> str | None:
        """Return the token in `data_dir/token`; None when there is none.

        It is a superuser's, and for this machine's servers alone: `treadle.transport.bearer` says where it may go, and
        nobody else shows it. Raises `InvalidSetting` when the file is there and can't be read.
        """
        try:
            return token_in(self.token_path.read_text(), f"what stands in {self.token_path}") or None
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or error
            raise InvalidSetting(
                f"the token in {self.token_path} can't be read ({reason}): set TREADLE_TOKEN"
            ) from None


def token_in(text: str, place: str) -> str:
    """Return a token without the spaces and line ends around it, as files of secrets have them.

    `place` is where it was found. Raises `InvalidSetting`, which does not say what it is, for what no header takes.
    """
    if not isinstance(text, str):
        raise InvalidSetting(f"{place} is a {type(text).__name__}, and no text")
    token = text.strip()
    if token.isascii() and token.isprintable() and " " not in token:
        return token
    raise InvalidSetting(f"{place} is no token: it has a space, a line's end or a character beyond ASCII in it")


def room_in(text: str) -> str:
    """Return a room; raise `InvalidSetting` for what is none."""
    try:
        return parse_room(text)
    except InvalidRoom as error:
        raise InvalidSetting(str(error)) from None


def _is_place(text: str) -> bool:
    """Whether this names a host, a port that there can be, and nothing behind a path."""
    try:
        parts = urlsplit(f"//{text}")
        return bool(parts.hostname) and parts.port != 0 and not {"?", "#", " "} & set(text)
    except ValueError:  # a port that is no number, or a bracket without its other
        return False


def split_urls(text: str) -> tuple[str, ...]:
    """Split comma-separated URLs; raise `InvalidSetting` unless each is http:// or https://."""
    if not isinstance(text, str):
        raise InvalidSetting(f"url={text!r} is no text: write http://host:port, several with commas between them")
    given = (part.strip().rstrip("/").partition("://") for part in text.split(",") if part.strip())
    # A scheme may be written either way, and is compared as it is here.
    urls = tuple(scheme.lower() + separator + rest for scheme, separator, rest in given)
    for url in urls:
        scheme, separator, rest = url.partition("://")
        # First, for what is wrong with the address is told with it.
        if "@" in (rest if separator else url).partition("/")[0]:
            raise InvalidSetting("a server's address has no user and no password: set TREADLE_TOKEN instead")
        if scheme not in {"http", "https"} or not separator or not _is_place(rest):
            raise InvalidSetting(f"{url!r} is no server's address: write http://host:port or https://host")
    if not urls:
        raise InvalidSetting("no server's address is given: set TREADLE_URL, for example http://127.0.0.1:7420")
    return urls
