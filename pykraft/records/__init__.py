"""Record batches, the unit of everything in Kafka: what producers send, logs store and consumers get, byte for byte."""
