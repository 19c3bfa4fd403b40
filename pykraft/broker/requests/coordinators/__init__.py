"""What members of groups and transactional producers ask of their coordinators.

Each module's first lines give its APIs, with their versions and the KIPs behind them.
"""
