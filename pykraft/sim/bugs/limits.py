"""Bugs in quotas and in rules of access: who is held back for whom, and what is allowed.

None loses a record, so no other law sees them.
"""

from __future__ import annotations

from typing import Any

from pykraft.common.acl import AclPermissionType
from pykraft.metadata.acls import AclIndex
from pykraft.metadata.client_quotas import QuotaTable, Sharing
from pykraft.sim.bugs.planting import bug, put
from pykraft.transport.server_channel import ServerChannel
from pykraft.transport.server_connection import ServerConnection

_DENY = AclPermissionType.DENY


@bug
def one_tenant_charged_for_another() -> None:
    """Each user and client id is charged on one account that all of them share."""
    find = QuotaTable.find
    put(QuotaTable, "find", lambda self, user, client_id: (Sharing("", ""), find(self, user, client_id)[1]))


@bug
def a_muted_connection_that_is_read_on() -> None:
    """A broker tells its client for how long it is throttled, and goes on reading what the client sends."""
    done = ServerChannel.done
    put(ServerChannel, "done", lambda self, context, throttled=False: done(self, context))
    put(ServerConnection, "_unthrottle", lambda self, now: None)


@bug
def precedence_turned_round() -> None:
    """The quota of a client id goes before that of its user."""
    find = QuotaTable.find

    def turned(self: QuotaTable, user: str, client_id: str) -> Any:
        limits = self._limits
        for name in (client_id, None):
            if ("", name) in limits:
                return Sharing("", client_id), limits["", name]
        return find(self, user, client_id)

    put(QuotaTable, "find", turned)


@bug
def a_rule_that_is_removed_and_still_counts() -> None:
    """The index of the rules takes up new rules, and keeps those that are gone."""
    put(AclIndex, "_remove", lambda self, record: None)


@bug
def a_denial_that_does_not_go_first() -> None:
    """What one rule allows is allowed, whatever another one denies."""
    add = AclIndex._add

    def add_unless_denial(self: AclIndex, record: Any) -> None:
        if record.permission_type != _DENY:
            add(self, record)

    put(AclIndex, "_add", add_unless_denial)
    remove = AclIndex._remove
    put(AclIndex, "_remove", lambda self, record: None if record.permission_type == _DENY else remove(self, record))
