"""Who may do what: the Authorizer port, and the one that lets everybody.

The dispatcher asks once for each request, with the context that says whose it is. Access control lists are not built
yet, and a node says so by refusing any configuration that would switch them on; until then everybody may do everything,
as on an Apache Kafka without an authorizer.

Follows org.apache.kafka.server.authorizer.Authorizer.
"""

from typing import Protocol

from pykraft.transport.server_channel import RequestContext


class Authorizer(Protocol):
    def authorize(self, context: RequestContext, operation: str, resource: str) -> bool:
        """Whether this principal may do this to that."""
        ...


class AllowEverybody:
    def authorize(self, context: RequestContext, operation: str, resource: str) -> bool:
        return True
