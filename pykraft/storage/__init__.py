"""The log on disk: segments and their indexes, recovery, checkpoints. One folder a partition, in Kafka's formats."""
