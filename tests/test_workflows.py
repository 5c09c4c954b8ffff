"""The workflows: whose code they run, and what that code may write."""

import re
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
PINNED = re.compile(r"[\w.-]+/[\w./-]+@[0-9a-f]{40}")
MAY_WRITE = {  # the job that publishes, and what publishing takes
    ("pages", "publish"): {"pages": "write", "id-token": "write"},
    ("release", "publish"): {"contents": "write"},
}


@pytest.fixture(params=WORKFLOWS, ids=lambda path: path.stem)
def workflow(request):
    """Name, text and content of each workflow."""
    text = request.param.read_text(encoding="utf-8")
    return request.param.stem, text, yaml.safe_load(text)


def steps(content):
    return [step for job in content["jobs"].values() for step in job["steps"]]


def test_each_action_is_pinned_by_its_hash_and_says_its_version(workflow):
    _, text, content = workflow
    for step in steps(content):
        if "uses" in step:
            assert PINNED.fullmatch(step["uses"]), step["uses"]
            assert re.search(rf"{step['uses']}  # v\d+\.\d+\.\d+$", text, re.MULTILINE), step[
                "uses"
            ]


def test_an_action_has_one_hash_in_all_workflows():
    text = "".join(path.read_text(encoding="utf-8") for path in WORKFLOWS)
    found = re.findall(r"uses: (\S+)@(\S+)  # (\S+)", text)
    assert len({action for action, _, _ in found}) == len(set(found))


def test_only_the_jobs_that_publish_may_write_anything(workflow):
    name, _, content = workflow
    assert content["permissions"] == {"contents": "read"}
    for job_name, job in content["jobs"].items():
        assert job.get("permissions", {}) == MAY_WRITE.get((name, job_name), {})


def test_a_job_that_may_write_runs_nothing_of_the_checkout(workflow):
    name, _, content = workflow
    for job_name, job in content["jobs"].items():
        if (name, job_name) in MAY_WRITE:
            assert not any("checkout@" in step.get("uses", "") for step in job["steps"])
            assert not any("make " in step.get("run", "") for step in job["steps"])


def test_no_checkout_leaves_a_token_behind(workflow):
    for step in steps(workflow[2]):
        if step.get("uses", "").startswith("actions/checkout@"):
            assert step["with"]["persist-credentials"] is False


def test_no_command_takes_text_from_an_event(workflow):
    """A title or a branch's name in `run` would be run. The matrix is the workflow's own."""
    for step in steps(workflow[2]):
        used = re.findall(r"\$\{\{\s*([\w.-]+)", step.get("run", ""))
        assert all(name.startswith("matrix.") for name in used), step["run"]


def test_every_job_ends_by_itself(workflow):
    assert all(job["timeout-minutes"] <= 90 for job in workflow[2]["jobs"].values())


def test_pull_requests_get_no_secrets(workflow):
    _, text, content = workflow
    assert "pull_request_target" not in text
    assert "workflow_run" not in content[True]  # YAML reads the key `on` as a truth value
    assert "secrets." not in text


def test_make_targets_that_workflows_run_exist():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z]+):", makefile, re.MULTILINE))
    for path in WORKFLOWS:
        for step in steps(yaml.safe_load(path.read_text(encoding="utf-8"))):
            for words in re.findall(r"^make (.*)$", step.get("run", ""), re.MULTILINE):
                assert set(re.sub(r"\w+=(\S*{{.*?}}|\S+)", "", words).split()) <= targets, words


def test_pages_are_built_where_the_history_is(workflow):
    name, _, content = workflow
    depths = [
        step["with"].get("fetch-depth")
        for step in steps(content)
        if "checkout" in step.get("uses", "")
    ]
    assert depths == [0] or name not in ("pages", "release")
