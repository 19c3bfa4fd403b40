"""How the bytes of a listener travel, and how its clients say who they are.

==============  =====  ====================================================
PLAINTEXT       as is  every client is ``User:ANONYMOUS``
SSL             TLS    a client may show a certificate
SASL_PLAINTEXT  as is  a client proves a name by SASL
SASL_SSL        TLS    the same, and the proof is encrypted on the way
==============  =====  ====================================================

The numbers are those in the registrations of brokers and controllers.

Follows org.apache.kafka.common.security.auth.SecurityProtocol.
"""

from enum import IntEnum


class SecurityProtocol(IntEnum):
    """One of Kafka's four security protocols."""

    PLAINTEXT = 0
    SSL = 1
    SASL_PLAINTEXT = 2
    SASL_SSL = 3

    @property
    def has_tls(self) -> bool:
        return self in (SecurityProtocol.SSL, SecurityProtocol.SASL_SSL)

    @property
    def has_sasl(self) -> bool:
        return self in (SecurityProtocol.SASL_PLAINTEXT, SecurityProtocol.SASL_SSL)
