"""What every layer shares: Kafka's nouns, its error codes, and the one idiom in which the cores are written.

Nothing in here knows a thread, a socket, a clock or a file.
"""
