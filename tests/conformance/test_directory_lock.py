"""A log directory is one process's: Apache Kafka and pykraft keep each other out of theirs."""

from __future__ import annotations

import pytest

from pykraft.storage.disk.filesystem import OsFileSystem
from pykraft.storage.upkeep.log_manager import DirectoryInUseError, lock_directory
from tests.harness import apache_kafka


@pytest.mark.long
@pytest.mark.parametrize("kafka", ["apache"])
def test_a_directory_is_used_by_one_of_both(kafka: str) -> None:
    if reason := apache_kafka.available():
        pytest.skip(reason)
    filesystem = OsFileSystem()
    with apache_kafka.ApacheKafka(1, java_options=apache_kafka.QUICK_START) as apache:
        directory = str(apache.folder(1) / "data")
        with pytest.raises(DirectoryInUseError, match=f"{directory} is in use by process {apache.pid(1)}: stop that"):
            lock_directory(filesystem, directory)
        apache.kill(1)
        lock = lock_directory(filesystem, directory)
        try:
            with pytest.raises(RuntimeError):
                apache.restart(1)
            assert f"Failed to acquire lock on file .lock in {directory}" in apache.log(1)
        finally:
            lock.release()
