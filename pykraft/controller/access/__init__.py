"""What clients are known by, may do, and may take: the plans for credentials, rules of access, and quotas."""
