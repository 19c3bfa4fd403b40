"""The progress of batch queries, as Spark's status tracker has it."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from pykraft.spark.reading.progress import progress


def test_each_query_of_the_block_is_counted_and_no_other(
    spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    spark.range(0, 10, 1, 4).count()
    with progress(spark, "two queries") as seen:
        assert spark.range(0, 10, 1, 3).rdd.count() == 10
        assert spark.range(0, 10, 1, 5).rdd.count() == 10
    assert capsys.readouterr().out == "two queries: 8 of 8 tasks done in 2 stages\n"
    last = seen.looks[-1]
    assert (last.done, last.tasks, last.stages, last.running) == (8, 8, 2, 0)
    assert [look.second for look in seen.looks] == sorted(look.second for look in seen.looks)


def test_a_query_that_fails_leaves_the_callers_job_group_as_it_was(spark: SparkSession) -> None:
    context = spark.sparkContext
    context.setJobGroup("mine", "my own")
    try:
        with pytest.raises(ZeroDivisionError), progress(spark, quiet=True):
            raise ZeroDivisionError
        assert context.getLocalProperty("spark.jobGroup.id") == "mine"
        assert context.getLocalProperty("spark.job.description") == "my own"
    finally:
        context.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type]
        context.setLocalProperty("spark.job.description", None)  # type: ignore[arg-type]


def test_the_progress_that_is_quiet_prints_nothing(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    with progress(spark, "unseen", quiet=True) as seen:
        spark.range(3).rdd.count()
    assert capsys.readouterr().out == ""
    assert seen.looks
