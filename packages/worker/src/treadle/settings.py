"""The settings that the SDK and the command read from the environment: `TREADLE_*`."""

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
"""Variables that are withheld from child processes: a run has a credential of its own, and gets decrypted values."""


class InvalidSetting(TreadleError, ValueError):
    """An environment variable or an argument has an invalid value."""


Budget = Annotated[int, Field(ge=0, le=MOST_TRIES)]
"""A number of retries or requeues, within what the server accepts."""


class Settings(BaseSettings):
    """Settings of workers, clients and the command; arguments in code and on the command line override them.

    Raises `InvalidSetting`, which names the variable and the value.
    """

    model_config: ClassVar[SettingsConfigDict] = SettingsConfigDict(
        env_prefix="TREADLE_", extra="ignore", env_ignore_empty=True
    )

    url: str = "http://127.0.0.1:7420"
    """The server's address; several URLs of one cluster, separated by commas, are tried in turn."""
    token: SecretStr | None = None
    """The access token; by default the one that a local server wrote to its data directory, for loopback addresses
    only."""
    encryption_keys: SecretStr | None = None
    """The keys for encrypted tasks, separated by commas: the first one encrypts, all of them decrypt."""
    encryption_keys_file: UserPath | None = None
    """A file with such keys, one on each line, read when `encryption_keys` is not set."""
    data_dir: UserPath = Field(default_factory=default_data_dir)
    """The directory in which a local server keeps its database and its first token."""
    room: Room = "@global"
    """The room that tasks are submitted from."""
    outbox_database_url: SecretStr | None = None
    """The database whose outbox `treadle outbox` relays, as an SQLAlchemy URL."""
    broker: str | None = None
    """`module:broker`: the taskiq broker of an `InternalRegistry` that is not given one; by default one in memory."""

    capture_output: bool = True
    """Whether what a task's code logs and prints is also sent to the task's log."""

    log_format: Style = "console"
    """How a worker writes its log: `console` for readable lines, `json` for one object a line."""

    max_retries: Budget = 3
    """How often a task is retried after its code failed, unless the decorator or the call says otherwise."""
    max_requeues: Budget = 5
    """How often a task is put back in the queue after its worker was lost."""
    retry_base: Annotated[float, Field(ge=0, le=TEN_YEARS, allow_inf_nan=False)] = 5.0
    """Seconds before the first retry."""
    retry_multiplier: Annotated[float, Field(ge=1, le=MOST_MULTIPLIER)] = 2.0
    """The factor by which each further delay grows."""
    retry_randomization: Annotated[float, Field(ge=0, le=MOST_RANDOMIZATION)] = 0.0
    """The largest share of the delay that is added at random."""
    timeout: Annotated[float, Field(gt=0, le=TEN_YEARS, allow_inf_nan=False)] | None = None
    """Seconds that a run may take; unlimited by default."""

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
        """The file to which a local server writes its first token."""
        return self.data_dir / TOKEN_FILE

    def read_local_token(self) -> str | None:
        """Return the token in `data_dir/token`; None when there is none.

        It is a superuser's token, meant only for servers on this machine: `treadle.transport.bearer` decides where it
        may be sent, and nothing else sends it. Raises `InvalidSetting` when the file exists and can't be read.
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
    """Return a token without the spaces and line breaks around it, which files of secrets often have.

    `place` says where it was found. Raises `InvalidSetting`, without quoting the token, if it can't go into a header.
    """
    if not isinstance(text, str):
        raise InvalidSetting(f"{place} is a {type(text).__name__}, not a str")
    token = text.strip()
    if token.isascii() and token.isprintable() and " " not in token:
        return token
    raise InvalidSetting(f"{place} is not a token: it contains a space, a line break or a non-ASCII character")


def room_in(text: str) -> str:
    """Return a room; raise `InvalidSetting` for an invalid one."""
    try:
        return parse_room(text)
    except InvalidRoom as error:
        raise InvalidSetting(str(error)) from None


def _is_place(text: str) -> bool:
    """Return whether this is a host, perhaps with a valid port and a path, and nothing after the path."""
    try:
        parts = urlsplit(f"//{text}")
        return bool(parts.hostname) and parts.port != 0 and not {"?", "#", " "} & set(text)
    except ValueError:  # a port that is not a number, or an unbalanced bracket
        return False


def split_urls(text: str) -> tuple[str, ...]:
    """Split comma-separated URLs; raise `InvalidSetting` unless each is http:// or https://."""
    if not isinstance(text, str):
        raise InvalidSetting(f"url={text!r} is not a str: write http://host:port, several separated by commas")
    given = (part.strip().rstrip("/").partition("://") for part in text.split(",") if part.strip())
    # Schemes are case-insensitive; compare them in lower case.
    urls = tuple(scheme.lower() + separator + rest for scheme, separator, rest in given)
    for url in urls:
        scheme, separator, rest = url.partition("://")
        # Checked first, because the messages below quote the address, and with it a password.
        if "@" in (rest if separator else url).partition("/")[0]:
            raise InvalidSetting(
                "a server's address is http://host:port or https://host, without a user or password: set TREADLE_TOKEN"
                " instead"
            )
        if scheme not in {"http", "https"} or not separator or not _is_place(rest):
            raise InvalidSetting(f"{url!r} is not a server's address: write http://host:port or https://host")
    if not urls:
        raise InvalidSetting("no server address was given: set TREADLE_URL, for example to http://127.0.0.1:7420")
    return urls
