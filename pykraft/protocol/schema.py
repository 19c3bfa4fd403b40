"""Messages declared once, compiled to an encoder and a decoder for each version.

Kafka's protocol has some ninety APIs in up to nineteen versions each. A message is declared here as one class for all
its versions; a field says since and until when it is on the wire::

    class FetchRequest(Request, api=1, versions=(4, 18), flexible=12):
        class Partition(Struct): ...

        replica_id: int32 = field(default=-1, until=14)
        max_wait_ms: int32
        isolation_level: int8 = field(default=0)
        cluster_id: string | None = field(default=None, since=12, tag=0)
        topics: Array[Topic]

A handler sees one object whatever the version was: fields that a version lacks have their default.

From such a declaration this module writes, once for each version that is really used, the Python source of an encoder
and of a decoder, and compiles them. `source` shows that text; it is the field-by-field description of the message's
bytes. Writing source instead of walking the fields each time makes it about ten times faster: neighbouring fields of
fixed size become one call of `struct`.

Versions from `flexible` on use the compact forms (see `primitives`) and end each structure with tagged fields: optional
fields by number that a reader who does not know them skips (KIP-482). A tagged structure that is absent is None.

What is read is a memoryview of one whole frame. `records` are returned as a slice of it, without a copy, and are valid
as long as the frame's buffer is; everything else is copied. Unknown tagged fields and bytes after the last field are
ignored, as Apache Kafka does (librdkafka sends some). Any other fault raises `ProtocolError`.

Follows org.apache.kafka.message.MessageGenerator, which writes Java from JSON at build time.
"""

import collections.abc
import inspect
import struct
import types
from collections.abc import Callable, Sequence
from typing import Annotated, Any, ClassVar, NamedTuple, Self, TypeVar, Union, dataclass_transform, get_args, get_origin

from pykraft.common.core import Steps
from pykraft.common.errors import KafkaError, ProtocolError
from pykraft.common.types import Uuid
from pykraft.protocol.listeners import ListenerKind
from pykraft.protocol.primitives import UNLIMITED
from pykraft.protocol.source import ELEMENTS_PER_STEP, decoder_source, encoder_source, has_loops
from pykraft.protocol.wire import FOR_EVER, Field, Fixed, Variable, Wire

int8 = Annotated[int, Fixed("b", 1, 0)]
int16 = Annotated[int, Fixed("h", 2, 0)]
uint16 = Annotated[int, Fixed("H", 2, 0)]
int32 = Annotated[int, Fixed("i", 4, 0)]
uint32 = Annotated[int, Fixed("I", 4, 0)]
int64 = Annotated[int, Fixed("q", 8, 0)]
float64 = Annotated[float, Fixed("d", 8, 0.0)]
boolean = Annotated[bool, Fixed("?", 1, False)]
string = Annotated[str, Variable("string", "h", "")]
octets = Annotated[bytes, Variable("bytes", "i", b"")]
record_batches = Annotated[Any, Variable("records", "i", b"")]
"""Kafka's type RECORDS: a memoryview when read; when written, anything with a length that the transport can send."""
uuid = Annotated[Uuid, None]
Array = Sequence


class _Declared(NamedTuple):
    """What `field` was called with, until the class around it is complete."""

    default: Any
    since: int
    until: int
    nullable_since: int
    tag: int | None
    flexible: bool


_NO_DEFAULT = object()


def field(
    *,
    default: Any = _NO_DEFAULT,
    since: int = 0,
    until: int = FOR_EVER,
    nullable_since: int = 0,
    tag: int | None = None,
    flexible: bool = True,
) -> Any:
    """Say more of a field than its type: its default, the versions that have it, from which of them on null is allowed,
    its tag, and (`flexible=False`) that it keeps the classic form in flexible versions."""
    return _Declared(default, since, until, nullable_since, tag, flexible)


@dataclass_transform(kw_only_default=True, field_specifiers=(field,))
class Struct:
    """A structure of fields. Values not given, or not in the version that was read, are the class's defaults."""

    fields: ClassVar[tuple[Field, ...]] = ()
    _names: ClassVar[frozenset[str]] = frozenset()

    def __init_subclass__(cls) -> None:
        own = []
        annotations: dict[str, Any] = dict(inspect.get_annotations(cls))
        for name, annotation in annotations.items():
            if get_origin(annotation) is ClassVar:
                continue
            wire = _wire(annotation)
            said = cls.__dict__.get(name, _Declared(_NO_DEFAULT, 0, FOR_EVER, 0, None, True))
            default = wire.default if said.default is _NO_DEFAULT else said.default
            own.append(Field(name, wire, default, *said[1:]))
            setattr(cls, name, default)
        cls.fields = tuple(own)
        cls._names = frozenset(f.name for f in own)

    def __init__(self, **values: Any) -> None:
        if not self._names.issuperset(values):
            raise TypeError(f"{type(self).__qualname__} has no {sorted(values.keys() - self._names)}")
        self.__dict__.update(values)

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and all(
            _same(getattr(self, f.name), getattr(other, f.name)) for f in self.fields
        )

    def __repr__(self) -> str:
        shown = ", ".join(f"{f.name}={getattr(self, f.name)!r}" for f in self.fields if f.name in self.__dict__)
        return f"{type(self).__qualname__}({shown})"

    def replace(self, **values: Any) -> Self:
        """A copy with other values."""
        return type(self)(**{**self.__dict__, **values})


def _same(one: Any, other: Any) -> bool:
    """Equal, where a list and a tuple of equal elements are the same array."""
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(_same, one, other))
    return bool(one == other)


MessageType = TypeVar("MessageType", bound="Message")


class Message(Struct):
    """A structure that is sent or stored on its own: it has versions, and knows the first flexible one."""

    versions: ClassVar[tuple[int, int]] = (0, 0)
    flexible: ClassVar[int] = FOR_EVER

    def __init_subclass__(cls, versions: tuple[int, int] = (0, 0), flexible: int = FOR_EVER) -> None:
        super().__init_subclass__()
        cls.versions = versions
        cls.flexible = flexible

    def encode(self, version: int) -> list[Any]:
        """The message's bytes as a list of parts, in order. `records` are parts of their own, as they were given."""
        parts: list[Any] = []
        cls = type(self)
        encode = _encoders.get((cls, version, version >= cls.flexible)) or encoder(cls, version)
        encode(self, parts.append)
        return parts

    def to_bytes(self, version: int) -> bytes:
        """The message's bytes, joined. All `records` in it must be bytes-like."""
        return b"".join(self.encode(version))

    @classmethod
    def decode(
        cls,
        buffer: bytes | bytearray | memoryview,
        version: int,
        position: int = 0,
        max_elements: int = UNLIMITED,
    ) -> Self:
        """The message that begins at `position`; what follows it is ignored. ProtocolError if it cannot be read, or has
        more than `max_elements` in its arrays and tagged fields."""
        return cls.decode_from(buffer, version, position, max_elements)[0]

    @classmethod
    def decode_from(
        cls,
        buffer: bytes | bytearray | memoryview,
        version: int,
        position: int = 0,
        max_elements: int = UNLIMITED,
    ) -> tuple[Self, int]:
        """The message that begins at `position`, and the position after it."""
        if not cls.versions[0] <= version <= cls.versions[1]:
            raise ProtocolError(f"{cls.__name__} has no version {version}")
        decode = _decoders.get((cls, version, version >= cls.flexible)) or decoder(cls, version)
        try:
            message, end = decode(memoryview(buffer), position, [max_elements])
        except (struct.error, IndexError, ValueError) as error:
            raise ProtocolError(f"{cls.__name__} version {version} ends too soon: {error}") from error
        if end > len(buffer):
            raise ProtocolError(f"{cls.__name__} version {version} ends too soon")
        return message, end

    @classmethod
    def decode_in_steps(
        cls,
        buffer: bytes | bytearray | memoryview,
        version: int,
        position: int = 0,
        max_elements: int = UNLIMITED,
    ) -> Steps[Self]:
        """What `decode` returns, in steps of a few elements."""
        if not has_loops(cls, version):
            return cls.decode(buffer, version, position, max_elements)
        decode = _pausing_decoder(cls, version, version >= cls.flexible)
        try:
            message, end = yield from decode(
                memoryview(buffer), position, [max_elements, max_elements - ELEMENTS_PER_STEP]
            )
        except (struct.error, IndexError, ValueError) as error:
            raise ProtocolError(f"{cls.__name__} version {version} ends too soon: {error}") from error
        if end > len(buffer):
            raise ProtocolError(f"{cls.__name__} version {version} ends too soon")
        return message  # type: ignore[no-any-return]


class Request(Message):
    """A request: what a client or node asks of a node. `api` is its key on the wire.

    The declaration says all that is known of the API before it has a handler: the listeners that serve it, the versions
    that ApiVersions advertises (those that can be read, unless said otherwise), and whether a broker may forward it to
    the active controller for its client."""

    api: ClassVar[int]
    response: ClassVar[type["Response"]]
    served_by: ClassVar[tuple[ListenerKind, ...]]
    advertised: ClassVar[tuple[int, int]]
    forwardable: ClassVar[bool]

    def __init_subclass__(
        cls,
        api: int,
        versions: tuple[int, int],
        flexible: int = FOR_EVER,
        listeners: tuple[ListenerKind, ...] = (),
        advertised: tuple[int, int] | None = None,
        forwardable: bool = False,
    ) -> None:
        super().__init_subclass__(versions, flexible)
        cls.api = api
        cls.served_by = listeners
        cls.advertised = advertised or versions
        cls.forwardable = forwardable

    def at_most(self, version: int) -> Self:
        """This request, limited to versions up to `version`: it lacks what newer versions ask for."""
        self.__dict__["versions"] = (self.versions[0], version)
        return self

    def at_least(self, version: int) -> Self:
        """This request, limited to versions from `version` on: it says what older versions have no field for."""
        self.__dict__["versions"] = (version, self.versions[1])
        return self

    def refusal(self, error: KafkaError) -> "Response | None":
        """The response that refuses the whole request. None if this client wants no answer: its connection is closed,
        which is all that it can notice.

        Here it is the error code of the response as a whole, with a message where there is a field for it. A request
        whose response has codes for its parts only overrides this, and gives each part the same error, where the
        clients of this API look for it. Follows the getErrorResponse methods of org.apache.kafka.common.requests."""
        response = self.response
        has_code = "error_code" in response._names
        assert has_code, f"{response.__name__} has no error code of its own: {type(self).__name__} overrides refusal"
        message = {"error_message": error.detail or None} if "error_message" in response._names else {}
        return response(error_code=error.code, **message)


class Response(Message):
    """The answer to a request: same key, same versions."""

    api: ClassVar[int]
    tells_throttling: ClassVar[bool]
    """Whether it has a `throttle_time_ms`, in some version."""

    def __init_subclass__(cls, to: type[Request]) -> None:
        super().__init_subclass__(to.versions, to.flexible)
        cls.api = to.api
        cls.tells_throttling = "throttle_time_ms" in cls._names
        to.response = cls


def _wire(annotation: Any) -> Wire:
    """Read an annotation: ``int32``, ``string | None``, ``Array[Topic]``, ``Array[int32] | None``."""
    nullable = False
    if get_origin(annotation) in (Union, types.UnionType):
        (annotation,) = [part for part in get_args(annotation) if part is not type(None)]
        nullable = True
    if get_origin(annotation) is collections.abc.Sequence:
        return Wire(_wire(get_args(annotation)[0]).element, True, nullable)
    if get_origin(annotation) is Annotated:
        return Wire(get_args(annotation)[1], False, nullable)
    assert issubclass(annotation, Struct), annotation
    return Wire(annotation, False, nullable)


Encoder = Callable[[Any, Callable[[Any], None]], None]
Decoder = Callable[[memoryview, int, list[int]], tuple[Any, int]]


_encoders: dict[tuple[Any, int, bool], Encoder] = {}
_pausing_encoders: dict[tuple[Any, int, bool], Any] = {}
_decoders: dict[tuple[Any, int, bool], Decoder] = {}
_pausing_decoders: dict[tuple[Any, int, bool], Any] = {}
_marking_decoders: dict[tuple[Any, int, bool], Decoder] = {}


def encoder(message: type[Message], version: int) -> Encoder:
    """The compiled encoder of one version: ``encode(message, write)`` calls `write` with one part after the other."""
    assert message.versions[0] <= version <= message.versions[1], f"{message.__name__} has no version {version}"
    return _struct_encoder(message, version, version >= message.flexible)


def decoder(message: type[Message], version: int) -> Decoder:
    """The compiled decoder of one version: ``decode(view, position, [elements])`` returns (message, position after it).
    The list holds how many elements the message may have, and then what is left of them."""
    return _struct_decoder(message, version, version >= message.flexible)


def _struct_encoder(structure: type[Struct], version: int, flexible: bool) -> Encoder:
    known = _encoders.get((structure, version, flexible))
    if known is None:
        text, names = encoder_source(structure, version, flexible, _struct_encoder)
        known = _encoders[structure, version, flexible] = _compiled(text, names, "encode", structure, version)
    return known


def encode_in_steps(message: Message, version: int) -> Steps[list[Any]]:
    """What ``message.encode(version)`` returns, in steps of a few elements."""
    if not has_loops(type(message), version):
        return message.encode(version)
    parts: list[Any] = []
    cls, joined = type(message), 0
    for _ in _pausing_encoder(cls, version, version >= cls.flexible)(message, parts.append):
        # A field of four bytes is an object of forty: what is ready becomes one part, or the answer would be as large.
        joined = _join(parts, joined)
        yield
    _join(parts, joined)
    return parts


def _join(parts: list[Any], start: int) -> int:
    """Make one part of those from `start` on, if all are bytes; returns where those begin that come next."""
    if all(isinstance(part, bytes) for part in parts[start:]):  # a Uuid is bytes, too
        parts[start:] = [b"".join(parts[start:])]
    return len(parts)


def _pausing_encoder(structure: type[Struct], version: int, flexible: bool) -> Any:
    if not has_loops(structure, version):
        return _struct_encoder(structure, version, flexible)
    known = _pausing_encoders.get((structure, version, flexible))
    if known is None:
        text, names = encoder_source(structure, version, flexible, _pausing_encoder, pauses=True)
        known = _pausing_encoders[structure, version, flexible] = _compiled(text, names, "encode", structure, version)
    return known


def _struct_decoder(structure: type[Struct], version: int, flexible: bool) -> Decoder:
    known = _decoders.get((structure, version, flexible))
    if known is None:
        text, names = decoder_source(structure, version, flexible, _struct_decoder)
        known = _decoders[structure, version, flexible] = _compiled(text, names, "decode", structure, version)
    return known


def _pausing_decoder(structure: type[Struct], version: int, flexible: bool) -> Any:
    if not has_loops(structure, version):
        return _struct_decoder(structure, version, flexible)
    known = _pausing_decoders.get((structure, version, flexible))
    if known is None:
        text, names = decoder_source(structure, version, flexible, _pausing_decoder, pauses=True)
        known = _pausing_decoders[structure, version, flexible] = _compiled(text, names, "decode", structure, version)
    return known


def marking_decoder(structure: type[Struct], version: int, flexible: bool) -> Decoder:
    """The same decoder, which notes where each field is: its list is a `field_tree.Marks`."""
    known = _marking_decoders.get((structure, version, flexible))
    if known is None:
        text, names = decoder_source(structure, version, flexible, marking_decoder, marks=True)
        known = _compiled(text, names, "decode", structure, version)
        _marking_decoders[structure, version, flexible] = known
    return known


def _compiled(
    text: str, names: dict[str, Any], function: str, structure: type[Struct], version: int
) -> Callable[..., Any]:
    exec(compile(text, f"<{structure.__qualname__} version {version}: {function}>", "exec"), names)
    compiled: Callable[..., Any] = names[function]
    return compiled


def source(message: type[Message], version: int) -> str:
    """The Python text of the encoder and the decoder of one version, to be read."""
    flexible = version >= message.flexible
    encode, _ = encoder_source(message, version, flexible, _struct_encoder)
    decode, _ = decoder_source(message, version, flexible, _struct_decoder)
    return f"{encode}\n\n{decode}"
