"""Kafka's topics as Spark DataFrames: ``spark.read.format("pykraft")``, with the options of Spark's own Kafka source.

`session` starts Spark, `register` adds the source to a session that something else has started, `stop` ends the first.
There is no stream and no sink: what else is left out stands in `pykraft/SKIPPED.md`, what an option does in `options`.
"""

from pykraft.extras import require

require("pykraft.spark", "spark", "pyspark", "pyarrow", "numpy", "pandas")

from pykraft.spark.session import register, session, stop  # noqa: E402 (it imports pyspark)
from pykraft.spark.source import PykraftDataSource  # noqa: E402

__all__ = ["PykraftDataSource", "register", "session", "stop"]
