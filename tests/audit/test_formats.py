"""Every format says the same, and is what its readers expect."""

import json
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
import yaml
from jsonschema import Draft4Validator, Draft7Validator
from xmlschema import XMLSchema

from audit.auditing import audited
from gpuledger.audit.report.full_json import render_full_json
from gpuledger.audit.report.github import render_github
from gpuledger.audit.report.junit import render_junit
from gpuledger.audit.report.model import Report
from gpuledger.audit.report.plain_json import render_plain_json
from gpuledger.audit.report.policy_report import render_policy_report
from gpuledger.audit.report.sarif import render_sarif
from gpuledger.audit.report.text import TextStyle, render_text

FIXTURES = Path(__file__).parents[1] / "fixtures"
CAPTURE = (FIXTURES / "kube-1.36/kubectl-get-pods-A.json").read_bytes()

HOSTILE = """
kind: Pod
metadata:
  name: "x\\n::error::\\e[31m]]>&<'\\"%, : \\u2028\\x00"
  namespace: "ä\\ud7ff"
  annotations: {ignore.gpuledger.io/image-latest: 'reviewed "twice" <&>'}
spec:
  containers:
  - {name: "a\\r\\n::b", image: "]]>", resources: {limits: {nvidia.com/gpu: 1}}}
  - {name: b, image: app}
---
[
"""


@pytest.fixture(params=["capture", "hostile", "empty"])
def report(request: pytest.FixtureRequest) -> Report:
    dumps = {"capture": CAPTURE, "hostile": HOSTILE.encode(), "empty": b'{"items": []}'}
    return audited(dumps[request.param])


def _text(report: Report) -> Iterator[str]:
    return render_text(report, TextStyle())


SARIF = Draft4Validator(json.loads((FIXTURES / "schemas/sarif-2.1.0.json").read_text()))
OPEN_REPORTS = Draft7Validator(json.loads((FIXTURES / "schemas/openreports-report-v1alpha1.json").read_text()))
JUNIT = XMLSchema(FIXTURES / "schemas/junit-10.xsd")


def test_sarif_fits_its_published_schema(report: Report) -> None:
    SARIF.validate(json.loads("".join(render_sarif(report))))


def test_junit_fits_its_published_schema(report: Report) -> None:
    JUNIT.validate(ET.fromstring("".join(render_junit(report))))  # noqa: S314 - our own output


def test_policy_reports_fit_their_custom_resource_definition(report: Report) -> None:
    for document in yaml.safe_load_all("".join(render_policy_report(report))):
        if document:  # nothing to report is a comment
            OPEN_REPORTS.validate(document)


def test_every_format_reports_the_same_findings(report: Report) -> None:
    expected = sorted(line.finding.check for line in report.lines())
    full = json.loads("".join(render_full_json(report)))
    plain = json.loads("".join(render_plain_json(report)))
    sarif = json.loads("".join(render_sarif(report)))
    junit = ET.fromstring("".join(render_junit(report)))  # noqa: S314 - our own output
    assert expected == sorted(finding["check"] for pod in full["pods"] for finding in pod["findings"])
    assert expected == sorted(finding["check"] for finding in plain["findings"])
    results = sarif["runs"][0]["results"]
    assert expected == sorted(result["ruleId"] for result in results if "suppressions" not in result)
    assert len(expected) == len(list(junit.iter("failure"))) == int(junit.attrib["failures"])


def test_formats_for_people_group_what_pods_of_a_workload_share(report: Report) -> None:
    expected = sorted((line.finding.check, line.others) for line in report.grouped_lines())
    documents = list(yaml.safe_load_all("".join(render_policy_report(report))))
    results = [result for document in documents for result in document["results"]]
    assert expected == sorted(
        (result["policy"], int(result["properties"].get("pods", 1)) - 1) for result in results
    )
    assert len(expected) == sum(line.startswith("[FINDING] ") for line in _text(report))
    annotations = [line for line in render_github(report) if "title=unreadable" not in line]
    assert len(expected) == len(annotations)


def test_plain_json_has_the_keys_of_old(report: Report) -> None:
    document = json.loads("".join(render_plain_json(report)))
    assert ["cards", "findings", "pods", "pods_with_findings"] == list(document)
    for finding in document["findings"]:
        assert ["check", "container", "detail", "namespace", "pod"] == list(finding)


def test_a_manifest_can_not_forge_lines_or_colours() -> None:
    report = audited(HOSTILE)
    for render in (_text, render_github):
        lines = list(render(report))
        assert all(line.count("\n") == 1 and line.endswith("\n") for line in lines)
        assert not any(character in line for line in lines for character in "\x1b\r")
        assert not any(line.startswith("::error::") for line in lines)


def test_problems_are_reported_where_a_format_has_a_place() -> None:
    report = audited(HOSTILE)
    assert 1 == len(report.problems)
    sarif = json.loads("".join(render_sarif(report)))
    (invocation,) = sarif["runs"][0]["invocations"]
    assert (False, 1) == (invocation["executionSuccessful"], len(invocation["toolExecutionNotifications"]))
    assert list(report.problems) == json.loads("".join(render_full_json(report)))["problems"]
    junit = ET.fromstring("".join(render_junit(report)))  # noqa: S314 - our own output
    assert 1 == len(list(junit.iter("error"))) == int(junit.attrib["errors"])


def test_exceptions_are_suppressed_in_sarif_and_skipped_in_junit() -> None:
    report = audited(HOSTILE, "image-latest")
    (result,) = json.loads("".join(render_sarif(report)))["runs"][0]["results"]
    assert [{"kind": "external", "justification": 'reviewed "twice" <&>'}] == result["suppressions"]
    junit = ET.fromstring("".join(render_junit(report)))  # noqa: S314 - our own output
    assert ['reviewed "twice" <&>'] == [skipped.attrib["message"] for skipped in junit.iter("skipped")]
