"""nbval runs a notebook in half a minute; who reads it takes half an hour, and meanwhile the nodes keep house.

With this plugin the kernels' nodes look for old segments each second, instead of half a minute after their start and
then every five minutes. So a topic that a reader would lose, because its records are of 2013, is lost here as well.
"""

from __future__ import annotations

import os
import pathlib
import tempfile

import pytest

STARTUP = """
from pykraft.broker.settings.config import NODE_CONFIG as _NODE_CONFIG

for _name in ("log.initial.task.delay.ms", "log.retention.check.interval.ms"):
    _NODE_CONFIG.change_default(_name, 1000)
"""


def pytest_configure(config: pytest.Config) -> None:
    directory = tempfile.TemporaryDirectory(prefix="pykraft-ipython-", ignore_cleanup_errors=True)
    startup = pathlib.Path(directory.name, "profile_default", "startup")
    startup.mkdir(parents=True)
    (startup / "00-slow-reader.py").write_text(STARTUP)
    os.environ["IPYTHONDIR"] = directory.name  # kernels inherit it
    config.add_cleanup(directory.cleanup)
