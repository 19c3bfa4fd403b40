"""The log on disk: segments and their indexes, recovery, checkpoints. One folder a partition, in Kafka's formats.

To be read in this order: `disk` (what a disk promises, and what not, and the small files beside the logs);
`segment_files`, `file_records`, `index`, `transaction_index` and `log_segment` (one segment); `leader_epoch_cache` and
`producer_state` (what is known besides the batches); `append_rules`, `validator`, `answers`, `log_parts` and `log` (one
log); then `upkeep`: `log_loader` (after a stop or a crash), `retention`, `cleaner` and `log_cleaner` (what goes),
`log_manager` (all logs of a node). It has more than 15 modules, because each is one file of a folder, or one thing
that a log is asked.
"""
