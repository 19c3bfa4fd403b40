"""Which pykraft this is. A link to a history names it: another version may have other steps."""

VERSION = "0.1.0"
