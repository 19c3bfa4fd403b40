"""Certificates and the names of principals: as Java prints a subject, and as Kafka's rules map it."""

from __future__ import annotations

import re
import ssl
from pathlib import Path

import pytest

from pykraft.transport.principals import PrincipalMapping, distinguished_name

JAVA = (Path(__file__).parent / "java_subjects.pem").read_text(encoding="utf-8")
"""Certificates, each after its subject as `X500Principal.getName()` of Java 21 prints it."""
SUBJECTS = re.findall(
    r"^([^-\n][^\n]*=[^\n]*)\n(-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----\n)", JAVA, re.M | re.S
)
OF_KAFKA = (
    "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L, RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/L, "
    "RULE:^cn=(.*?),ou=(.*?),dc=(.*?),dc=(.*?)$/$1@$2/U, RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/U, DEFAULT"
)


@pytest.mark.parametrize(("printed", "certificate"), SUBJECTS, ids=[name for name, _ in SUBJECTS])
def test_a_subject_is_printed_as_java_prints_it(printed: str, certificate: str) -> None:
    assert len(SUBJECTS) == 9
    assert distinguished_name(ssl.PEM_cert_to_DER_cert(certificate)) == printed


def test_bytes_that_are_no_certificate_name_nobody() -> None:
    certificate = ssl.PEM_cert_to_DER_cert(SUBJECTS[0][1])
    for end in range(0, len(certificate), 7):
        with pytest.raises((ValueError, IndexError)):
            distinguished_name(certificate[:end])


@pytest.mark.parametrize(
    ("rules", "subject", "name"),
    [
        ("DEFAULT", "CN=a,O=b", "CN=a,O=b"),
        (OF_KAFKA, "CN=Duke,OU=ServiceUsers,O=Org,C=US", "duke"),
        (OF_KAFKA, "CN=Duke,OU=SME,O=mycp,L=Fulton,ST=MD,C=US", "duke@sme"),
        (OF_KAFKA, "cn=duke,ou=sme,dc=mycp,dc=com", "DUKE@SME"),
        (OF_KAFKA, "cN=duke,OU=JavaSoft,O=Sun Microsystems", "DUKE"),
        (OF_KAFKA, "OU=JavaSoft,O=Sun,C=US", "OU=JavaSoft,O=Sun,C=US"),
        (r"RULE:^CN=((\\, *|\w)+)(,.*|$)/$1/,DEFAULT", r"CN=Tkac\, Adam,OU=ITZ", r"Tkac\, Adam"),
        ("RULE:CN=a/x/,DEFAULT", "CN=ab", "CN=ab"),
        ("RULE:^CN=(.*)$/$1@$4/", "CN=a", "a@$4"),
        ("RULE:^CN=(.)(.*)$/$12-$0/", "CN=abc", "a2-CN=abc"),
        (r"RULE:^CN=(.*)$/\$1\/x/", "CN=a", "$1/x"),
        ("RULE:^CN=(.*)$/$1/L,RULE:^O=(.*)$/$1/U", "O=x", "X"),
    ],
)
def test_the_first_rule_that_matches_the_whole_subject_gives_the_name(rules: str, subject: str, name: str) -> None:
    assert PrincipalMapping(rules).name_of(subject) == name


@pytest.mark.parametrize("rules", ["RULE:^CN=(.*)$/$1/", "", " , ,"])
def test_a_subject_that_no_rule_matches_names_nobody(rules: str) -> None:
    with pytest.raises(ValueError, match="no rule applies to O=x,CN=a"):
        PrincipalMapping(rules).name_of("O=x,CN=a")


@pytest.mark.parametrize(
    "rules",
    [
        *("default", "DEFAUL", "DEFAULT/L", "RULE:CN=(.*?),OU=ServiceUsers.*/$1", "rule:^CN=(.*?)$/$1/"),
        *("RULE:^CN=(.*?)$/$1/L/U", "RULE:^CN=(.*?)$/L", "RULE:^CN=(.*?)$/LU", "RULE:^CN=((.*)$/$1/"),
    ],
)
def test_what_is_no_rule_is_refused(rules: str) -> None:
    with pytest.raises(ValueError, match=r"[a-zA-Z:]"):
        PrincipalMapping(rules)
