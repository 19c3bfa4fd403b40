"""The first picture of notebook 21: alice logs in and sends a record, and what Eve reads of it.

At each move a node is started that knows alice with the password you type (`guarded_node`), and a producer of pykraft's
own logs in by the way you choose. Eve's wiretap copies each byte. Then we look for five things in all that has passed
by. The picture shows some messages of the connection with the record:

* in the clear, each frame of the login and the Produce request; SCRAM's login has two requests and two answers. What
  none of them has is in a frame of the first connection, which asks for the topic: that frame is shown as well;
* over TLS, the ClientHello, the TLS records that have the login or alice's certificate, and the one with the record.
"""

from collections.abc import Iterator, Mapping

from pykraft import Producer
from pykraft.course.lessons.access.guarded_node import SCRAM, GuardedNode
from pykraft.course.lessons.access.overheard import Message, Overheard
from pykraft.security.mechanism import PLAIN
from pykraft.viz import Figure
from pykraft.viz.wire.readable_chart import Heard, readable

PROTOCOLS, MECHANISMS = ("SASL_PLAINTEXT", "SASL_SSL", "SSL"), (PLAIN, SCRAM)
"""Values of security.protocol and of sasl.mechanism."""
_USER, _TOPIC, _SERVER = "alice", "flights", "localhost"
_FEWEST, _MOST = 4, 30
"""Of letters. Three letters are soon there by chance, among encrypted bytes."""
_CLIENT_ID, _TIMEOUT_S = "app", 10
_REQUESTS = {PLAIN: 1, SCRAM: 2}
"""Of a login."""
_BEFORE_THE_LOGIN = 3
"""Encrypted records: the end of the client's handshake, ApiVersions and SaslHandshake."""
_TAIL = 3
"""The last records of a client: a producer's id at most, the record, an alert that closes the connection."""


def draw_overheard(security_protocol: str, sasl_mechanism: str, password: str, record: str) -> Figure:
    """Eve's copy. ValueError if the password or the record has too few letters, or others than ASCII's."""
    texts = wanted(password, record)
    copy = overheard(security_protocol, sasl_mechanism, password, record)
    was_read = {name: text in copy for name, text in texts.items()}
    how = security_protocol if security_protocol == "SSL" else f"{security_protocol} with {sasl_mechanism}"
    messages = list(shown(copy, security_protocol, sasl_mechanism))
    missing = [t for name, t in texts.items() if was_read[name] and not any(t in each.data for _, each in messages)]
    if missing:
        messages.insert(-1, _with_most(copy, missing))
    heard = [Heard(what, message.data, list(_found(message.data, texts))) for what, message in messages]
    note = "A byte that is a letter in ASCII is drawn as that letter, any other byte as two digits."
    if security_protocol == "SSL":
        note = f"No password: alice's certificate says who she is. {note}"
    return readable(heard, was_read, title=f"{how}: Eve reads {_summed_up(was_read)}", note=note)


def wanted(password: str, record: str) -> dict[str, bytes]:
    """What Eve looks for, by name."""
    for name, text in (("password", password), ("record", record)):
        is_plain = all(letter.isascii() and (letter.isalnum() or letter == " ") for letter in text)
        if not _FEWEST <= len(text.strip()) <= len(text) <= _MOST or not is_plain:
            raise ValueError(f"{name}: type {_FEWEST} to {_MOST} letters, digits or spaces")
    texts = [password, _USER, record, _TOPIC, _SERVER]
    for text in texts[:3:2]:
        if sum(text in other for other in texts) > 1:
            raise ValueError(f"{text!r} is in {_USER}, {_TOPIC}, {_SERVER} or the other text: type another one")
    names = ("the password", "who logs in", "the record", "the topic", "whom alice calls")
    return {name: text.encode() for name, text in zip(names, texts, strict=True)}


def overheard(security_protocol: str, sasl_mechanism: str, password: str, record: str) -> Overheard:
    """What passes by while alice sends the record."""
    node = GuardedNode(_USER, password, _TOPIC)
    try:
        is_sealed = security_protocol == "SASL_SSL"
        settings = node.sealed() if security_protocol == "SSL" else node.login(sasl_mechanism, is_sealed)
        with node.overheard() as copy, Producer(**settings, client_id=_CLIENT_ID) as alice:
            alice.send(_TOPIC, value=record.encode()).result(_TIMEOUT_S)
        return copy
    finally:
        node.close()


def shown(copy: Overheard, security_protocol: str, sasl_mechanism: str) -> Iterator[tuple[str, Message]]:
    """The messages of the picture, each with what it is."""
    messages = copy.connections()[-1]
    asked = [message for message in messages if not message.is_answer]
    if security_protocol == "SASL_PLAINTEXT":
        login = [message for message in messages if message.name == "SaslAuthenticate"]
        requests, answers = login[: len(login) // 2], login[len(login) // 2 :]
        for request, answer in zip(requests, answers, strict=True):
            yield _caption(request), request
            if sasl_mechanism == SCRAM:
                yield _caption(answer), answer
        sent = next(message for message in asked if message.name == "Produce")
        yield _caption(sent), sent
        return
    yield _caption(asked[0], "ClientHello, the first message of TLS"), asked[0]
    sealed = [message for message in asked if message.name == "application data"]
    if security_protocol == "SSL":
        yield _caption(sealed[0], "alice's certificate, encrypted"), sealed[0]
    else:
        for message in sealed[_BEFORE_THE_LOGIN:][: _REQUESTS[sasl_mechanism]]:
            yield _caption(message, "SaslAuthenticate, encrypted"), message
    sent = max(sealed[-_TAIL:], key=lambda message: len(message.data))
    yield _caption(sent, "Produce, encrypted"), sent


def _caption(message: Message, what: str = "") -> str:
    way, name = "alice → broker", message.name
    if message.is_answer:
        way, name = "broker → alice", f"the answer to {name}"
    return f"{way}: {what or name}, {len(message.data)} bytes"


def _with_most(copy: Overheard, missing: list[bytes]) -> tuple[str, Message]:
    """The message that has most of these."""
    messages = [message for connection in copy.connections() for message in connection]
    found = max(messages, key=lambda message: sum(text in message.data for text in missing))
    return _caption(found), found


def _found(data: bytes, texts: Mapping[str, bytes]) -> Iterator[tuple[str, int, int]]:
    """Where each text is, at each place."""
    for name, text in texts.items():
        start = data.find(text)
        while start >= 0:
            yield name, start, start + len(text)
            start = data.find(text, start + len(text))


def _summed_up(was_read: Mapping[str, bool]) -> str:
    read, not_read = ([name for name, is_read in was_read.items() if is_read is wanted] for wanted in (True, False))
    if len(not_read) < 2:
        return f"all but {not_read[0]}" if not_read else "everything, and the password too"
    return f"only {' and '.join(read)}" if read else "nothing"
