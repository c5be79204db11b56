"""Quantities are read as Kubernetes reads them."""

from decimal import Decimal

import pytest

from gpuledger.parse.quantity import parse_quantity


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0", "0"),
        ("1", "1"),
        ("+2", "2"),
        ("-3", "-3"),
        ("1.", "1"),
        (".5", "0.5"),
        ("1.0", "1"),
        ("500m", "0.5"),
        ("1k", "1000"),
        ("1Ki", "1024"),
        ("1.5Gi", "1610612736"),
        ("1E", "1000000000000000000"),
        ("1Ei", "1152921504606846976"),
        ("1e3", "1000"),
        ("1E3", "1000"),
        ("12e-1", "1.2"),
        ("5n", "0.000000005"),
        ("7u", "0.000007"),
    ],
)
def test_kubernetes_grammar(text: str, expected: str) -> None:
    assert Decimal(expected) == parse_quantity(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        " 1",
        "1 ",
        "1K",
        "1ki",
        "1mi",
        "one",
        "1e",
        "1e3.5",
        "0x10",
        "1_000",
        "\N{ARABIC-INDIC DIGIT ONE}",
        "NaN",
        "inf",
        "1e9999",
        "--1",
    ],
)
def test_anything_else_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match="not a Kubernetes quantity"):
        parse_quantity(text)
