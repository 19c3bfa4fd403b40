"""How much may be used: whose quota it is, and how fast something happens."""
