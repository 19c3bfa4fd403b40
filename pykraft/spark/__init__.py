"""Kafka's topics as Spark DataFrames."""

from pykraft.spark.session import register, session, stop
from pykraft.spark.source import PykraftDataSource

__all__ = ["PykraftDataSource", "register", "session", "stop"]
