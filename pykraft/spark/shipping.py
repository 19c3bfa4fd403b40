"""The code that executors need: this package as a zip file, which Spark brings to them.

A reader travels to an executor pickled, and a pickle names classes, it does not hold them. In local mode the workers
are started on this machine and find the package where it is. On a cluster they find whatever is installed there:
nothing, or another version. So the session hands Spark a zip file, which every worker puts in front of its path; what
they need besides (numpy, pandas, pyarrow, crc32c, lz4, zstandard, cramjam, and PySpark itself) must be installed there.

``python -m pykraft.spark pykraft.zip`` writes the same file. A driver that runs on the cluster too can have it in place
of an installed package, and hands it on as it is. CLUSTERS.md says more.
"""

import shutil
import zipfile
from pathlib import Path
from zipimport import zipimporter

import pykraft

_FIXED_TIME = (2020, 1, 1, 0, 0, 0)
"""The same code gives the same file."""


def package_folder() -> Path:
    """The folder of this package."""
    assert pykraft.__file__ is not None
    return Path(pykraft.__file__).parent


def write_package(path: Path) -> None:
    """Write all modules of pykraft into a zip file that can stand on a Python path."""
    if isinstance(pykraft.__loader__, zipimporter):
        shutil.copyfile(pykraft.__loader__.archive, path)
        return
    folder = package_folder()
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for module in sorted(folder.rglob("*.py")):
            entry = zipfile.ZipInfo(module.relative_to(folder.parent).as_posix(), _FIXED_TIME)
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, module.read_bytes())
