"""Makes ``spark.read.format("pykraft")`` work in any Spark session: nothing is imported or registered.

Spark looks for Python data sources in top-level modules whose names begin with ``pyspark_``, and takes their
``DefaultSource``. It asks the interpreter of its Python workers (``PYSPARK_PYTHON``), so that one must have pykraft.
"""

from pykraft.spark.source import PykraftDataSource as DefaultSource

__all__ = ["DefaultSource"]
