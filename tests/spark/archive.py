"""Makes the archive of Spark's classes beside the first suites: those that start Spark come later, and start faster."""

from pykraft.spark.class_archive import main

if __name__ == "__main__":
    main()
