"""What an administrator asks about rules of access (ACLs): to list, create and delete them.

A rule is an `AclBinding`, and an `AclBindingFilter` says which rules are meant (`common.acl`)::

    AclBinding("topic", "flights", "literal", "User:alice", "*", "read", "allow")
    AclBindingFilter(resource_type="topic", resource_name="flights")

Their words may be given as text, as Kafka's commands have them: ``"DescribeConfigs"``, ``"describe_configs"``.

Follows org.apache.kafka.clients.admin.{CreateAclsResult,DeleteAclsResult,DescribeAclsResult}.
"""

from collections.abc import Sequence
from enum import IntEnum
from typing import Any, TypeVar

from pykraft.client.api_driver import ApiDriver
from pykraft.common.acl import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AclResourceType,
    PatternType,
)
from pykraft.common.core import Promise
from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.protocol.acl_fields import creation_of, fields_of_filter, rule_in
from pykraft.protocol.messages.acls import (
    CreateAclsRequest,
    CreateAclsResponse,
    DeleteAclsRequest,
    DeleteAclsResponse,
    DescribeAclsRequest,
    DescribeAclsResponse,
)

__all__ = ["AclBinding", "AclBindingFilter", "AclCalls", "acl_binding", "acl_filter", "without_errors", "word"]

E = TypeVar("E", bound=IntEnum)
K = TypeVar("K")
V = TypeVar("V")
_WORDS: dict[str, Any] = {
    "resource_type": AclResourceType,
    "pattern_type": PatternType,
    "operation": AclOperation,
    "permission_type": AclPermissionType,
}


def word(kind: type[E], value: Any) -> E:
    """A word of a rule, also by its name. ValueError if there is no such word."""
    try:
        if not isinstance(value, str):
            found = kind(value)
        else:
            plain = value.replace("_", "").replace("-", "").upper()
            found = {name.replace("_", ""): member for name, member in kind.__members__.items()}[plain]
    except (KeyError, ValueError):
        found = kind(0)
    if found == 0:
        names = ", ".join(member.name.lower() for member in kind if member)
        raise ValueError(f"{value!r} is no {kind.__name__}: it is one of {names}")
    return found


def acl_binding(rule: Any) -> AclBinding:
    """A rule to create. TypeError or ValueError if it is none."""
    if not isinstance(rule, AclBinding):
        raise TypeError(f"a rule is made of AclBinding(resource_type, resource_name, ...), not of {rule!r}")
    _check_text(rule.resource_name, rule.principal, rule.host)
    found = rule._replace(**_words(rule))
    open_ = [each.name for each in (found[0], found[2], found[5], found[6]) if each.name in ("ANY", "MATCH")]
    if open_:
        raise ValueError(f"a rule says {open_[0]}, which is for filters: {rule!r}")
    return found


def acl_filter(wanted: Any) -> AclBindingFilter:
    """Which rules are meant; a rule means itself. TypeError or ValueError if it does not say so."""
    if isinstance(wanted, AclBinding):
        wanted = AclBindingFilter(*wanted)
    if not isinstance(wanted, AclBindingFilter):
        raise TypeError(f"rules are named by AclBindingFilter(resource_type, resource_name, ...), not by {wanted!r}")
    _check_text(*(text for text in (wanted.resource_name, wanted.principal, wanted.host) if text is not None))
    return wanted._replace(**_words(wanted))


def _words(rule: AclBinding | AclBindingFilter) -> dict[str, Any]:
    return {name: word(kind, getattr(rule, name)) for name, kind in _WORDS.items()}


def _check_text(*texts: Any) -> None:
    for text in texts:
        if not isinstance(text, str):
            raise TypeError(f"the names in a rule are text, not {text!r}")


def without_errors(found: dict[K, V | KafkaError]) -> dict[K, V]:
    """The answers, where none is an error; else the first error, in the order of the question."""
    for answer in found.values():
        if isinstance(answer, KafkaError):
            raise answer
    return {key: answer for key, answer in found.items() if not isinstance(answer, KafkaError)}


class AclCalls:
    """Each method asks one thing; `deadline` is when to give up. Promises bring the answer or the KafkaError."""

    def __init__(self, driver: ApiDriver) -> None:
        self._driver = driver

    def describe_acls(self, wanted: AclBindingFilter, deadline: int) -> "Promise[list[AclBinding] | KafkaError]":
        """The rules that the filter finds."""
        return self._driver.ask_any(
            "to list rules", DescribeAclsRequest(**fields_of_filter(wanted)), _described, deadline
        )

    def create_acls(
        self, rules: Sequence[AclBinding], deadline: int
    ) -> "Promise[dict[AclBinding, KafkaError | None] | KafkaError]":
        """What became of each rule."""
        creations = [creation_of(rule) for rule in rules]

        def read(response: CreateAclsResponse) -> dict[AclBinding, KafkaError | None]:
            return {rule: _error(result) for rule, result in zip(rules, response.results, strict=True)}

        return self._driver.ask_any("to create rules", CreateAclsRequest(creations=creations), read, deadline)

    def delete_acls(
        self, filters: Sequence[AclBindingFilter], deadline: int
    ) -> "Promise[dict[AclBindingFilter, list[AclBinding] | KafkaError] | KafkaError]":
        """The rules that each filter has removed, or its error."""
        wanted = [DeleteAclsRequest.Filter(**fields_of_filter(each)) for each in filters]

        def read(response: DeleteAclsResponse) -> dict[AclBindingFilter, list[AclBinding] | KafkaError]:
            return {
                each: _error(result) or [rule_in(found, found) for found in result.matching_acls]
                for each, result in zip(filters, response.filter_results, strict=True)
            }

        return self._driver.ask_any("to delete rules", DeleteAclsRequest(filters=wanted), read, deadline)


def _described(response: DescribeAclsResponse) -> list[AclBinding]:
    error = _error(response)
    if error is not None:
        raise error
    return [rule_in(resource, each) for resource in response.resources for each in resource.acls]


def _error(answer: Any) -> KafkaError | None:
    return KafkaError(ErrorCode.of(answer.error_code), answer.error_message or "") if answer.error_code else None
