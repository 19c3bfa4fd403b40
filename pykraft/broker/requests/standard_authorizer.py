"""The authorizer that a node's file asks for: by the rules in the metadata, super users, and a default.

A node without ``authorizer.class.name`` allows everything. With Kafka's StandardAuthorizer it asks the rules of its own
image (`metadata.acls`), so a broker and a controller answer alike as soon as both have read the same records. Super
users may do everything, whatever the rules say.

**Before the rules are loaded** a node does not know what is denied. Until then it serves super users alone; anyone else
gets UNKNOWN_SERVER_ERROR. A broker opens its listeners when it has read the metadata, so its clients never meet that. A
controller serves from the start, because the quorum needs its controllers before there is any committed record: so
their principal, on PLAINTEXT ``User:ANONYMOUS``, must be a super user, as with Apache Kafka. A listener that
``early.start.listeners`` leaves out waits for the rules.

Follows org.apache.kafka.metadata.authorizer.StandardAuthorizer and kafka.server.metadata.AclPublisher.
"""

from collections.abc import Callable, Collection, Mapping

from pykraft.broker.requests.authorizer import AllowAll, Authorizer
from pykraft.broker.settings.authorizer_config import (
    ALLOW_EVERYONE_IF_NO_ACL_FOUND,
    AUTHORIZER_CLASS_NAME,
    SUPER_USERS,
)
from pykraft.common.acl import AclOperation, AclResourceType
from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.common.settings.config import Config
from pykraft.common.types import Uuid
from pykraft.metadata.acls import EVERYTHING, AclIndex
from pykraft.metadata.loader import MetadataLoader
from pykraft.metadata.versions import IV_4_4_1_RANGES_OF_ADDRESSES, METADATA_VERSION
from pykraft.protocol.messages.records import AccessControlEntryRecord
from pykraft.transport.server_channel import RequestContext

Acls = Mapping[Uuid, AccessControlEntryRecord]


class StandardAuthorizer:
    """Answers by the rules that ``acls()`` returns."""

    allows_all = False

    def __init__(
        self,
        acls: Callable[[], Acls],
        *,
        super_users: Collection[str] = (),
        allows_without_rules: bool = False,
        is_loaded: Callable[[], bool] = lambda: True,
        has_ranges: Callable[[], bool] = lambda: False,
    ) -> None:
        """``has_ranges()`` says whether a rule may be about a range of addresses. ``is_loaded()`` says whether the
        rules are those of the cluster; once they are, it is not asked again. What changes the rules calls
        `note_news`."""
        self._acls = acls
        self._index = AclIndex(EVERYTHING if allows_without_rules else 0)
        self._super_users = frozenset(super_users)
        self._is_loaded = is_loaded
        self._has_ranges = has_ranges
        self._knows_rules = False
        self._may_be_stale = True

    def note_news(self) -> None:
        """There may be other rules: the next question looks."""
        self._may_be_stale = True

    def allows(
        self, context: RequestContext, operation: AclOperation, resource_type: AclResourceType, name: str
    ) -> bool:
        if context.principal in self._super_users:
            return True
        if self._may_be_stale:
            self._update()
        rights = self._index.rights(context.principal, context.client_address, resource_type, name)
        return rights >> operation & 1 == 1

    def allowed(
        self, context: RequestContext, operation: AclOperation, resource_type: AclResourceType, names: Collection[str]
    ) -> Collection[str]:
        return frozenset(name for name in names if self.allows(context, operation, resource_type, name))

    def allows_some(self, context: RequestContext, operation: AclOperation, resource_type: AclResourceType) -> bool:
        if context.principal in self._super_users:
            return True
        if self._may_be_stale:
            self._update()
        return self._index.allows_some(context.principal, context.client_address, operation, resource_type)

    def _update(self) -> None:
        """Take up the rules as they are now. KafkaError while they are not known."""
        if not self._knows_rules and not self._is_loaded():
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "the node does not know the rules of access yet")
        self._knows_rules = True
        acls = self._acls()
        has_ranges = self._has_ranges()
        if acls is not self._index.acls or has_ranges is not self._index.has_ranges:
            self._index.follow(acls, has_ranges)
        self._may_be_stale = False


def configured_authorizer(config: Config, loader: MetadataLoader, is_loaded: Callable[[], bool]) -> Authorizer:
    """The authorizer that a node's file asks for. `loader` has the rules."""
    if not config[AUTHORIZER_CLASS_NAME]:
        return AllowAll()
    super_users: tuple[str, ...] = config[SUPER_USERS]
    authorizer = StandardAuthorizer(
        lambda: loader.image.acls,
        has_ranges=lambda: loader.image.features.get(METADATA_VERSION, 0) >= IV_4_4_1_RANGES_OF_ADDRESSES,
        super_users=super_users,
        allows_without_rules=config[ALLOW_EVERYONE_IF_NO_ACL_FOUND],
        is_loaded=is_loaded,
    )
    loader.watch(authorizer.note_news)
    return authorizer
