"""The command keeps the old script's flags and exit codes, and says what is wrong with a flag."""

import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from audit.command import gpuledger_audit

CAPTURE = str(Path(__file__).parents[1] / "fixtures/kube-1.36/kubectl-get-pods-A.json")

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def clean(tmp_path: Path) -> str:
    path = tmp_path / "clean.yaml"
    limits = "{cpu: 1, memory: 1Gi, nvidia.com/gpu: 1}"
    path.write_text(
        "kind: Pod\nmetadata: {name: good, namespace: ml}\n"
        f"spec: {{containers: [{{name: c, image: 'app:1', resources: {{limits: {limits}}}}}]}}\n"
    )
    return str(path)


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        pytest.param([], 1, id="findings"),
        pytest.param(["--classic"], 1, id="classic"),
        pytest.param(["-n", "ml-training", "--check", "privileged"], 0, id="none in this namespace"),
        pytest.param(["--namespace", "research", "--check", "privileged"], 1, id="some in this namespace"),
        pytest.param(["-n", "typo"], 0, id="empty"),
        pytest.param(["-n", "typo", "--fail-if-empty"], 2, id="empty must not be"),
        pytest.param(["--check", "gpu-privileged", "--min-severity", "critical"], 1, id="critical"),
        pytest.param(
            ["--check", "memory-limit", "--check", "gpu-dra-admin", "--min-severity", "high"],
            0,
            id="below the minimum",
        ),
        pytest.param(["--skip", "gpu-privileged", "--min-severity", "critical"], 0, id="skipped"),
        pytest.param(["--json"], 1, id="json"),
        pytest.param(["--format", "sarif"], 1, id="sarif"),
        pytest.param(["/no/such/file"], 2, id="one file is missing"),
        pytest.param(["--list-checks"], 0, id="list"),
        pytest.param(["--explain", "gpu-privileged"], 0, id="explain"),
        pytest.param(["--explain", "gpu-priviledged"], 2, id="unknown check to explain"),
        pytest.param(["--check", "nope"], 2, id="unknown check"),
        pytest.param(["--policy", "/no/such/file"], 2, id="no policy"),
        pytest.param(["--baseline", CAPTURE], 2, id="no baseline"),
    ],
)
def test_exit_code(flags: list[str], expected: int) -> None:
    assert expected == gpuledger_audit(CAPTURE, *flags)


@pytest.mark.parametrize(
    "flags",
    [
        ["--min-severity", "awful"],
        ["--format", "xml"],
        ["--gpu-resource", "("],
        ["--json", "--format", "junit"],
        ["--nope"],
    ],
)
def test_wrong_flags_are_exit_2(flags: list[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        gpuledger_audit(CAPTURE, *flags)


def test_clean_is_exit_0(clean: str, capsys: Capture) -> None:
    assert 0 == gpuledger_audit(clean)
    assert capsys.readouterr().out.splitlines() == [
        "ml/good                                         1 GPU",
        "",
        "1 pod(s) audited, 1 card(s) requested, 0 finding(s)",
        "requested: 1 nvidia.com/gpu",
        "OK clean",
    ]


def test_quiet_leaves_out_the_inventory(clean: str, capsys: Capture) -> None:
    gpuledger_audit(clean, "--quiet", "--classic")
    assert capsys.readouterr().out == "\n1 pod(s) audited, 1 card(s) requested, 0 finding(s)\nOK clean\n"


def test_findings_of_readable_files_are_printed_before_exit_2(capsys: Capture) -> None:
    assert 2 == gpuledger_audit(CAPTURE, "/no/such/file")
    out, err = capsys.readouterr()
    assert (
        "[FINDING] research/debug-shell sh: privileged container sees every GPU (critical, gpu-privileged)"
        in out
    )
    assert err == "error: /no/such/file: No such file or directory\n"


def test_all_audits_pods_without_gpus(capsys: Capture) -> None:
    gpuledger_audit(CAPTURE, "--all", "--classic")
    assert "kube-system/static-gpu-daemon-node1             0 GPU" in capsys.readouterr().out


def test_json_is_one_line_with_totals(capsys: Capture) -> None:
    gpuledger_audit(CAPTURE, "--json", "--check", "privileged")
    finding = {
        "check": "privileged",
        "container": "sh",
        "detail": "",
        "namespace": "research",
        "pod": "debug-shell",
    }
    expected = {"cards": 13, "findings": [finding], "pods": 9, "pods_with_findings": 1}
    assert json.dumps(expected, sort_keys=True) + "\n" == capsys.readouterr().out


def test_more_resources_can_be_gpus(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "pod.yaml"
    limits = "{limits: {example.com/npu: 3}}"
    path.write_text(
        f"kind: Pod\nmetadata: {{name: p}}\nspec: {{containers: [{{name: c, resources: {limits}}}]}}\n"
    )
    gpuledger_audit(str(path), "--gpu-resource", r"example\.com/npu")
    assert "default/p                                       3 GPU" in capsys.readouterr().out


def test_explain_says_why_and_what_to_do(capsys: Capture) -> None:
    gpuledger_audit("--explain", "gpu-privileged")
    out = capsys.readouterr().out
    assert [True] * 3 == [word in out for word in ("gpu-privileged (critical)", "Why: ", "What to do: ")]


def test_explain_below_each_finding(capsys: Capture) -> None:
    gpuledger_audit(CAPTURE, "--check", "gpu-privileged", "--explain")
    lines = capsys.readouterr().out.splitlines()
    place = next(index for index, line in enumerate(lines) if line.startswith("[FINDING]"))
    assert [True, True] == [lines[place + 1].startswith("    why: "), lines[place + 2].startswith("    do:  ")]


def test_a_named_check_is_shown_whatever_its_severity(capsys: Capture) -> None:
    gpuledger_audit(CAPTURE, "--check", "image-not-digest")
    assert "(low, image-not-digest: localhost/busybox:1" in capsys.readouterr().out


def _pipe(*arguments: str, **options: Any) -> subprocess.CompletedProcess[bytes]:
    code = "import sys; from audit.command import gpuledger_audit; sys.exit(gpuledger_audit(*sys.argv[1:]))"
    environment = {"PYTHONPATH": str(Path(__file__).parents[1]), "PYTHONIOENCODING": "ascii", "PATH": ""}
    return subprocess.run([sys.executable, "-c", code, *arguments], env=environment, check=False, **options)


def test_kubectl_is_piped_in() -> None:
    result = _pipe("-", "--classic", input=Path(CAPTURE).read_bytes(), capture_output=True)
    last = result.stdout.splitlines()[-1]
    assert (1, b"ALERT 7 of 8 pod(s) need review", b"") == (result.returncode, last, result.stderr)


def test_a_reader_that_leaves_early_is_no_error() -> None:
    with subprocess.Popen(["true"], stdin=subprocess.PIPE) as reader:
        reader.wait()
        result = _pipe(CAPTURE, "--format", "json", stdout=reader.stdin, stderr=subprocess.PIPE)
    assert (1, b"") == (result.returncode, result.stderr)


def test_names_that_the_terminal_can_not_show_are_escaped(tmp_path: Path) -> None:
    path = tmp_path / "pod.yaml"
    path.write_text('kind: Pod\nmetadata: {name: "\\u2713"}\nspec: {containers: [{name: c}]}\n')
    result = _pipe(str(path), "--all", "--quiet", "--check", "memory-limit", capture_output=True)
    assert b"[FINDING] default/\\u2713 c: no memory limit (medium, memory-limit)" in result.stdout


@pytest.mark.parametrize(
    ("output", "shown", "hidden"),
    [
        ("text", "gpu-privileged", "memory-limit"),
        ("json", '"gpu-privileged"', '"memory-limit"'),
        ("sarif", '"ruleId": "gpu-privileged"', '"ruleId": "memory-limit"'),
        ("junit", 'name="gpu-privileged', 'name="memory-limit'),
        ("github", "title=gpu-privileged", "title=memory-limit"),
        ("policy-report", "policy: gpu-privileged", "policy: memory-limit"),
    ],
)
def test_filters_apply_to_every_format(output: str, shown: str, hidden: str, capsys: Capture) -> None:
    gpuledger_audit(CAPTURE, "--min-severity", "critical", "--format", output)
    out = capsys.readouterr().out
    assert (True, False) == (shown in out, hidden in out)


def test_the_exceptions_in_the_docs_are_a_policy(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs/audit.md").read_text()
    path = tmp_path / "policy.yaml"
    path.write_text(page.partition("```yaml\n")[2].partition("```")[0])
    assert 1 == gpuledger_audit(CAPTURE, "--policy", str(path))


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_is_shown_on_a_terminal_and_cleared(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "dump.json"
    path.write_text("\n".join([json.dumps({"kind": "Service", "metadata": {}, "spec": {}})] * 2 + [POD] * 600))
    terminal = _Terminal()
    monkeypatch.setattr("gpuledger.app.audit.intake._PROGRESS_SECONDS", 0)
    monkeypatch.setattr("sys.stderr", terminal)
    gpuledger_audit(str(path))
    assert "\r256 objects read\r512 objects read\r\x1b[K" == terminal.getvalue()


POD = json.dumps({"kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [{"name": "c"}]}})


@pytest.mark.parametrize(("no_color", "coloured"), [("", True), ("1", False)])
def test_colour_is_for_terminals(no_color: str, coloured: bool, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: FBT001 - a table's column
    terminal = _Terminal()
    monkeypatch.setenv("NO_COLOR", no_color)
    monkeypatch.setattr("sys.stdout", terminal)
    gpuledger_audit(CAPTURE, "--check", "gpu-privileged")
    assert coloured == ("\x1b[1;31m[FINDING]\x1b[0m research/debug-shell sh" in terminal.getvalue())


# ---- flags that contradict each other, or do nothing ----


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        pytest.param(["--classic", "--check", "host-path"], "whatever --check says", id="classic and check"),
        pytest.param(["--classic", "--skip", "host-path"], "whatever --skip says", id="classic and skip"),
        pytest.param(
            ["--classic", "--min-severity", "low"], "whatever --min-severity", id="classic and severity"
        ),
        pytest.param(["--kubeconfig", "x"], "without --live", id="kubeconfig"),
        pytest.param(["--kube-context", "x"], "without --live", id="context"),
        pytest.param(["--check", "rt-idle"], "gpuledger node", id="check of what runs"),
        pytest.param(["--check", "host-path", "--skip", "host-path"], "no check to run", id="nothing left"),
        pytest.param(["--explain", CAPTURE], "files go before --explain", id="file to explain"),
        pytest.param(["--check="], "no check '', see --list-checks", id="no check named"),
    ],
)
def test_flags_without_effect_are_refused(flags: list[str], message: str, capsys: Capture) -> None:
    assert 2 == gpuledger_audit(*flags)
    assert message in capsys.readouterr().err


def test_patterns_of_gpu_resources_add_up(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "pod.json"
    limits = {"example.com/a": 1, "example.com/b": 2, "cpu": 4, "memory": "1Gi"}
    spec = {"containers": [{"name": "c", "resources": {"limits": limits}}]}
    path.write_text(json.dumps({"kind": "Pod", "metadata": {"name": "p"}, "spec": spec}))
    gpuledger_audit(str(path), "--json", "--gpu-resource", ".*/a", "--gpu-resource", ".*/b")
    gpuledger_audit(str(path), "--json", "--gpu-resource", ".*")
    assert [3, 3] == [json.loads(line)["cards"] for line in capsys.readouterr().out.splitlines()]


def test_manifests_may_be_kept_from_excusing_themselves(tmp_path: Path) -> None:
    path = tmp_path / "pod.json"
    annotations = {"ignore.gpuledger.io/gpu-privileged": "reviewed"}
    spec = {"containers": [{"name": "c", "securityContext": {"privileged": True}}]}
    path.write_text(
        json.dumps({"kind": "Pod", "metadata": {"name": "p", "annotations": annotations}, "spec": spec})
    )
    flags = (str(path), "--check", "gpu-privileged")
    assert [0, 1] == [gpuledger_audit(*flags), gpuledger_audit(*flags, "--ignore-annotations")]


@pytest.mark.parametrize(
    ("annotation", "flags", "remark"),
    [
        pytest.param("gpu-privileged: reviewed", [], "", id="one that excuses"),
        pytest.param("gpu-privileged.c: reviewed", [], "", id="one that excuses a container"),
        pytest.param("gpu-privleged: reviewed", [], "no check 'gpu-privleged'", id="misspelt check"),
        pytest.param("gpu-privileged.c: ''", [], "it gives no reason", id="no reason"),
        pytest.param("gpu-privleged: x", ["--ignore-annotations"], "", id="annotations that nobody asked for"),
    ],
)
def test_annotations_that_excuse_nothing_are_told(
    annotation: str, flags: list[str], remark: str, tmp_path: Path, capsys: Capture
) -> None:
    path = tmp_path / "pod.yaml"
    path.write_text(
        f"kind: Pod\nmetadata: {{name: p, annotations: {{ignore.gpuledger.io/{annotation}}}}}\n"
        "spec: {containers: [{name: c, image: 'a:1', securityContext: {privileged: true}}]}\n"
    )
    gpuledger_audit(str(path), *flags)
    key = annotation.partition(":")[0]
    told = f"{path}: Pod default/p: annotation ignore.gpuledger.io/{key} excuses nothing: {remark}\n"
    assert (told if remark else "") == capsys.readouterr().err


# ---- what fails outside ends in one line and exit code 2 ----


def _told(result: subprocess.CompletedProcess[bytes]) -> tuple[int, int]:
    """The exit code, and how many lines of error there are."""
    return result.returncode, len(result.stderr.splitlines())


def test_closed_standard_input_is_exit_2() -> None:
    code = "import os, sys; os.close(0); os.execv(sys.executable, [sys.executable, *sys.argv[1:]])"
    result = subprocess.run(
        [sys.executable, "-c", code, "-m", "gpuledger", "audit", "-"], check=False, capture_output=True
    )
    assert (2, 1) == _told(result)


def test_closed_standard_output_is_exit_2() -> None:
    command = f"exec {sys.executable} -m gpuledger audit {CAPTURE} >&-"
    result = subprocess.run(["sh", "-c", command], check=False, stderr=subprocess.PIPE)
    assert (2, b"gpuledger audit: standard output is closed\n") == (result.returncode, result.stderr)


def test_output_that_can_not_be_written_is_exit_2() -> None:
    with Path("/dev/full").open("wb") as full:
        assert (2, 1) == _told(_pipe(CAPTURE, stdout=full, stderr=subprocess.PIPE))


@pytest.mark.parametrize("redirection", ["2>/dev/full", "2>&-", "2>&1 >&- | :"])
@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param("/nowhere", id="unreadable input"),
        pytest.param("--no-such-flag", id="wrong flag"),
        pytest.param("--explain no-such-check", id="wrong value"),
        pytest.param(f"-n typo --fail-if-empty {CAPTURE}", id="nothing to audit"),
    ],
)
def test_errors_that_nobody_can_read_are_exit_2(arguments: str, redirection: str) -> None:
    command = f"set -o pipefail; {sys.executable} -m gpuledger audit {arguments} {redirection}"
    assert 2 == subprocess.run(["bash", "-c", command], check=False, capture_output=True).returncode


def test_a_temporary_file_that_can_not_grow_is_exit_2(tmp_path: Path) -> None:
    path = tmp_path / "dump.json"
    path.write_text("\n".join([PRIVILEGED_POD] * 9000))
    result = subprocess.run(
        ["sh", "-c", 'ulimit -f 64; exec "$0" -m gpuledger audit -q "$1"', sys.executable, str(path)],
        check=False,
        capture_output=True,
    )
    assert 2 == result.returncode
    assert b"Traceback" not in result.stderr


def test_what_nobody_foresaw_is_exit_2(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    def fail(_: object) -> int:
        raise ZeroDivisionError("at\nlast\x1b[2J")

    monkeypatch.setattr("gpuledger.app.audit.command.run", fail)
    assert 2 == gpuledger_audit(CAPTURE)
    assert "gpuledger audit: unexpected ZeroDivisionError: at last\\x1b[2J\n" == capsys.readouterr().err


PRIVILEGED_POD = json.dumps(
    {
        "kind": "Pod",
        "metadata": {"name": "p"},
        "spec": {"containers": [{"name": "c", "securityContext": {"privileged": True}}]},
    }
)


def test_errors_show_no_control_characters(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "dump.json"
    path.write_text(json.dumps({"kind": "Pod", "metadata": {"name": "x\n\x1b[2Jerror: forged"}}))
    assert 2 == gpuledger_audit(str(path))
    assert 1 == len(capsys.readouterr().err.splitlines())


def test_a_policy_report_of_nothing_says_so(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "dump.json"
    path.write_text('{"kind": "List", "items": []}')
    gpuledger_audit(str(path), "--format", "policy-report")
    assert "# nothing to report\n" == capsys.readouterr().out


def test_quotas_of_other_namespaces_are_left_out(tmp_path: Path, capsys: Capture) -> None:
    quota = {"kind": "ResourceQuota", "spec": {"hard": {"requests.nvidia.com/gpu": "4"}}}
    path = tmp_path / "dump.json"
    path.write_text("\n".join(json.dumps({**quota, "metadata": {"name": "q", "namespace": ns}}) for ns in "ab"))
    gpuledger_audit(str(path), "-n", "a", "--format", "json")
    assert ["a"] == [each["namespace"] for each in json.loads(capsys.readouterr().out)["cluster"]["quotas"]]
