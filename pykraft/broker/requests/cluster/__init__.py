"""What is asked about the cluster as a whole: its topics, settings, brokers and controllers.

Each module's first lines give its APIs, with their versions and the KIPs behind them.
"""
