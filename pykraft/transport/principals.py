"""Who shows a certificate: its subject as a principal's name, and the rules that shorten it.

A certificate's *subject* is a list of attributes such as ``CN=alice``, the most general one first. Java prints it as
RFC 2253 says, which is from the most special one on::

    CN=alice,OU=analysts,O=Kraft,C=CH

Nine attributes have a keyword. Any other is printed as the digits of its object identifier and the bytes of its value,
``1.2.840.113549.1.9.1=#16...`` for an address of electronic mail. Rules of access name a principal by this text, so
each character of it counts.

``ssl.principal.mapping.rules`` lists rules; the first that matches the whole text gives the name::

    RULE:^CN=(.*?),OU=analysts.*$/$1/L     CN=Alice,OU=analysts,O=Kraft  ->  alice
    DEFAULT                                any text is its own name

Follows javax.security.auth.x500.X500Principal and org.apache.kafka.common.security.ssl.SslPrincipalMapper.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

_KEYWORDS = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.25": "DC",
    "0.9.2342.19200300.100.1.1": "UID",
}
_TEXTS = {
    0x0C: "utf-8",
    0x13: "latin-1",
    0x14: "latin-1",
    0x16: "latin-1",
    0x1B: "latin-1",
    0x1C: "utf-32-be",
    0x1E: "utf-16-be",
}
"""How the kinds of string of ASN.1 are encoded, by their tags."""
_VERSION_TAG = 0xA0
_ESCAPED = ',=+<>#;"\\'


class _Element(NamedTuple):
    """One value in DER: its tag, all of its bytes, and its content."""

    tag: int
    whole: bytes
    content: bytes


def _elements(data: bytes) -> Iterator[_Element]:
    """The values that follow each other in these bytes. ValueError, IndexError: they are no DER."""
    start = 0
    while start < len(data):
        tag, length, position = data[start], data[start + 1], start + 2
        if length & 0x80:
            count = length & 0x7F
            length, position = int.from_bytes(data[position : position + count], "big"), position + count
        end = position + length
        if end > len(data):
            raise ValueError("a value claims more bytes than there are")
        yield _Element(tag, data[start:end], data[position:end])
        start = end


def distinguished_name(certificate: bytes) -> str:
    """The subject of a certificate in DER, as Java prints it. ValueError, IndexError: it is no certificate."""
    (outer,) = _elements(certificate)
    body = next(_elements(outer.content))
    fields = list(_elements(body.content))
    if fields[0].tag == _VERSION_TAG:
        fields = fields[1:]
    subject = fields[4]  # after the serial number, the algorithm, the issuer and the time of validity
    names = ["+".join(map(_attribute, _elements(each.content))) for each in _elements(subject.content)]
    return ",".join(reversed(names))


def _attribute(element: _Element) -> str:
    identifier, value = _elements(element.content)
    digits = _object_identifier(identifier.content)
    keyword, encoding = _KEYWORDS.get(digits), _TEXTS.get(value.tag)
    if keyword is None or encoding is None:
        return f"{keyword or digits}=#{value.whole.hex()}"
    return f"{keyword}={_escape(value.content.decode(encoding))}"


def _object_identifier(content: bytes) -> str:
    numbers, number = [], 0
    for byte in content:
        number = number << 7 | byte & 0x7F
        if not byte & 0x80:
            numbers.append(number)
            number = 0
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, [first, numbers[0] - 40 * first, *numbers[1:]]))


def _escape(text: str) -> str:
    """Special characters after a backslash, and blanks at both ends."""
    escaped = "".join("\\00" if each == "\0" else "\\" * (each in _ESCAPED) + each for each in text)
    inner = escaped.strip(" \r")
    if not inner:
        return "".join("\\" + each for each in escaped)
    first = len(escaped) - len(escaped.lstrip(" \r"))
    before, after = escaped[:first], escaped[first + len(inner) :]
    return "".join("\\" + each for each in before) + inner + "".join("\\" + each for each in after)


_RULE = r"(DEFAULT)|RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?).*?|(.*?)"
_SPLITTER = re.compile(rf"\s*({_RULE})\s*(,\s*|$)")
_PARSER = re.compile(_RULE)
_REFERENCE = re.compile(r"\\(.)|\$(\d)(\d*)", re.DOTALL)


class _Rule(NamedTuple):
    pattern: re.Pattern[str]
    replacement: str
    case: str
    """L: the name in lower case, U: in upper case; empty: as it is."""

    def apply(self, text: str) -> str | None:
        """The name, if the rule matches."""
        if self.pattern.fullmatch(text) is None:
            return None
        name = self.pattern.sub(self._replaced, text)
        return name.lower() if self.case == "L" else name.upper() if self.case == "U" else name

    def _replaced(self, match: re.Match[str]) -> str:
        """The replacement with the groups in it: as many digits as there is a group for; text, if there is none."""

        def referred(found: re.Match[str]) -> str:
            escaped, first, rest = found.groups()
            if escaped is not None:
                return str(escaped)
            number = int(first)
            while rest and number * 10 + int(rest[0]) <= match.re.groups:
                number, rest = number * 10 + int(rest[0]), rest[1:]
            if number > match.re.groups:
                return str(found[0])
            return (match[number] or "") + rest

        return _REFERENCE.sub(referred, self.replacement)


class PrincipalMapping:
    """The rules of ``ssl.principal.mapping.rules``."""

    def __init__(self, text: str) -> None:
        """ValueError: one of the rules cannot be read."""
        self._rules: list[_Rule | None] = []
        """None: DEFAULT."""
        for written in (match[1] for match in _SPLITTER.finditer(text.strip())):
            match = _PARSER.match(written)
            if match is None or match.end() < len(written):
                raise ValueError(written)
            if match[1] is not None:
                self._rules.append(None)
            elif match[2] is not None:
                try:
                    self._rules.append(_Rule(re.compile(match[2]), match[3], match[4]))
                except re.error as error:
                    raise ValueError(f"{written}: {error}") from None

    def name_of(self, text: str) -> str:
        """The name that the first matching rule gives. ValueError: none matches."""
        for rule in self._rules:
            name = text if rule is None else rule.apply(text)
            if name is not None:
                return name
        raise ValueError(f"no rule applies to {text}")

    def principal_of(self, certificate: bytes) -> str:
        """The principal that shows this certificate. ValueError, IndexError: it is none."""
        return f"User:{self.name_of(distinguished_name(certificate))}"
