"""Kafka's topics as Spark DataFrames: ``spark.read.format("pykraft")``, with the options of Spark's own Kafka source.

`session` starts Spark, `register` adds the source to a session that something else has started, `stop` ends the first.
``spark.readStream`` reads the same as a stream; ``df.write`` and ``df.writeStream`` append rows to topics. `options`
says what an option does when reading, `sink_options` when writing. `pykraft/SKIPPED.md` lists what is left out.
"""

from pykraft.extras import require

require("pykraft.spark", "spark", "pyspark", "pyarrow", "numpy", "pandas")

from pykraft.spark.session import register, session, stop  # noqa: E402 (it imports pyspark)
from pykraft.spark.source import PykraftDataSource  # noqa: E402

__all__ = ["PykraftDataSource", "register", "session", "stop"]
