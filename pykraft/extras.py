"""What an installation without extras lacks, said in one sentence.

``pip install pykraft`` brings what nodes, clients and commands need. Spark and the course need far more, and come as
extras (pyproject.toml). A package of an extra asks here, before its first import of a library, whether that is there.
"""

from importlib.util import find_spec


class ExtraNotInstalledError(ImportError):
    """A library is missing that an extra brings; the text says which extra."""


def require(what: str, extra: str, *libraries: str) -> None:
    """ExtraNotInstalledError unless each of these top-level modules can be imported. Nothing is imported here."""
    missing = [library for library in libraries if find_spec(library) is None]
    if missing:
        raise ExtraNotInstalledError(f"{what} needs {', '.join(missing)}: pip install 'pykraft[{extra}]'")
