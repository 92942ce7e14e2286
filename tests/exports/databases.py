"""Servers of databases, where Debian's packages are installed: on a socket in a folder, no network.

Each is started as an unprivileged user and stopped afterwards.
"""

import glob
import os
import shutil
import subprocess
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

USER = {"user": "nobody", "group": "nogroup"} if os.getuid() == 0 else {}


@contextmanager
def _folder():
    """A folder of the user; its path is short enough for a socket."""
    with tempfile.TemporaryDirectory(dir="/tmp", ignore_cleanup_errors=True) as name:
        if USER:
            shutil.chown(name, *USER.values())
        yield Path(name)


def _found(*names, paths=("/usr/sbin",)):
    """The path of a program; its test is skipped where there is none."""
    for name in names:
        path = shutil.which(name, path=os.pathsep.join(paths)) or shutil.which(name)
        if path:
            return path
    pytest.skip(f"{names[0]} is not installed (the Debian package mariadb-server or postgresql)")
    return None


def _run(*words, **options):
    done = subprocess.run(
        [str(word) for word in words], capture_output=True, text=True, cwd="/", check=False,
        timeout=300, **options,
    )  # fmt: skip
    assert done.returncode == 0, f"{words[0]}: {done.stdout[-2000:]} {done.stderr[-2000:]}"
    return done.stdout


@contextmanager
def _served(command, ask):
    """Run a server until the block ends; `ask` is called until it answers."""
    server = subprocess.Popen(
        [str(word) for word in command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        cwd="/", **USER,
    )  # fmt: skip
    try:
        last = time.monotonic() + 60
        while True:
            try:
                ask("SELECT 1")
                break
            except AssertionError:
                if server.poll() is not None or time.monotonic() > last:
                    raise
                time.sleep(0.1)
        yield ask
    finally:
        server.terminate()
        server.wait(60)


@contextmanager
def mariadb():
    """A function that runs statements and returns the lines of the last answer."""
    server, client = _found("mariadbd", "mysqld"), _found("mariadb", "mysql")
    install = _found("mariadb-install-db", "mysql_install_db")
    with _folder() as folder:
        data, socket = folder / "data", folder / "socket"
        _run(install, "--no-defaults", f"--datadir={data}", "--skip-test-db",
             "--auth-root-authentication-method=normal", **USER)  # fmt: skip

        def ask(statements, mode=""):
            given = f"CREATE DATABASE IF NOT EXISTS test;\nUSE test;\n{statements};\n"
            return _run(client, "--no-defaults", f"--socket={socket}", "-uroot", "--batch",
                        "--default-character-set=utf8mb4", "--raw", "--skip-column-names",
                        f"--init-command=SET sql_mode='{mode}'",
                        input=given)  # fmt: skip

        command = [server, "--no-defaults", f"--datadir={data}", f"--socket={socket}",
                   f"--pid-file={folder / 'pid'}", "--skip-networking",
                   "--innodb-buffer-pool-size=16M"]  # fmt: skip
        with _served(command, ask) as answer:
            yield answer


@contextmanager
def postgresql():
    """A function that runs statements and returns the lines of the last answer."""
    paths = sorted(glob.glob("/usr/lib/postgresql/*/bin"), reverse=True)
    server, initdb, client = (_found(n, paths=paths) for n in ("postgres", "initdb", "psql"))
    with _folder() as folder:
        data = folder / "data"
        _run(initdb, "-D", data, "-U", "test", "-A", "trust", "-E", "UTF8", "--no-sync", **USER)

        def ask(statements):
            return _run(client, "-h", folder, "-U", "test", "-d", "postgres", "-qAtX",
                        "-v", "ON_ERROR_STOP=1", "-F", "\t", input=f"{statements};\n")  # fmt: skip

        command = [server, "-D", data, "-k", folder, "-c", "listen_addresses=", "-F"]
        with _served(command, ask) as answer:
            yield answer
