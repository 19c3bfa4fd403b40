"""Every message that pykraft can read and write, one class each for all its versions.

The declarations follow the protocol of Apache Kafka 4.4: names in snake_case, nested structures inside their message.
A module holds the messages of one subject. The folder has more than 15 modules, because a reader looks a message up by
its subject. `protocol.api` lists the messages by key.
"""
