"""Record batches, the unit of everything in Kafka: what producers send, logs store and consumers get, byte for byte.

To be read in this order: `varint`, `record`, `compression` and `crc32c` (what a batch is made of); `batch` (its
header), `builder` (how it is made), `overview` (what a leader asks of its records), `markers` (how a transaction ends),
`filtering` (what compaction leaves of it).
"""
