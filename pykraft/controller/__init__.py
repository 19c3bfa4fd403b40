"""The controller: decides about brokers, topics and leaders, and writes it into the metadata log (KIP-631)."""
