"""The checks that the server's distribution adds to `treadle doctor`, by the settings that a server would have."""

from functools import partial

from pydantic import ValidationError

from treadle.wire.findings import Check, Finding, Seen
from treadle_server.checkup import database, descriptors, disk, files
from treadle_server.errors import ValidationFailed
from treadle_server.settings import Settings, problems_in
from treadle_server.store.urls import parse_url


def checks() -> list[Check]:
    """Return the checks; those of the database follow from that which reaches it."""
    try:
        settings = Settings()
    except ValidationError as error:
        return [Check("machine", partial(_wrong, problems_in(error)))]
    places, of_artifacts = {"the data directory": settings.data_dir}, settings.artifacts_directory
    if of_artifacts is not None and disk.is_elsewhere(of_artifacts, settings.data_dir):
        places[disk.OF_ARTIFACTS] = of_artifacts
    return [
        *(Check("disk", partial(disk.look, name, place)) for name, place in places.items()),
        Check("files", partial(files.look, settings)),
        Check("descriptors", partial(descriptors.look, settings.max_connections)),
        Check("database", partial(_database, settings)),
    ]


def _wrong(what: str) -> Seen:
    return [
        Finding(
            "machine", "fail", f"a server would refuse to start with these settings: {what}", "see docs/settings.md"
        )
    ]


def _database(settings: Settings) -> Seen:
    """Say which database is meant, and how it is looked at."""
    try:
        url = parse_url(settings.database_direct_url or settings.database_url)
    except ValidationFailed as error:
        return [Finding("database", "fail", error.detail, "set TREADLE_DATABASE_URL")]
    if url.get_backend_name() == "sqlite":
        try:
            return database.of_sqlite(url, settings.data_dir)
        except PermissionError as error:
            told = f"{error.filename} can't be looked at ({error.strerror})"
            return [Finding("database", "fail", told, "run the doctor as the server's user, or root")]
    return [Check("database", partial(database.of_postgres, url))]
