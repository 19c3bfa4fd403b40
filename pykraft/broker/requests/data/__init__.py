"""What clients and followers ask of a partition's leader: records, offsets, logs, markers.

Each module's first lines give its APIs, with their versions and the KIPs behind them.
"""
