"""Stands in for the server's package where only the SDK is installed: `nox -s lowest` puts it on the path.

The tests of the SDK start servers by `treadle_server.testing`. Here each is a process: the `treadle` command of another
environment, which `TREADLE_TEST_SERVER` names. Tests that look into the server, or need the dashboard, are marked
`inside`, and left out.
"""
