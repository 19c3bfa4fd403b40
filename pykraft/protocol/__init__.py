"""Kafka's wire protocol: the primitive encodings, the schema compiler, and every message that pykraft speaks."""
