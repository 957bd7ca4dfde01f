"""Discovery, tasks, sessions, files and artifacts through the published client. Arguments: the server's URL and a key."""

import sys

from uhp import UhpError, artifacts, check_discovery, connect, output_text, probe

url, key = sys.argv[1:]


def refused(status, code, call):
    try:
        call()
    except UhpError as error:
        assert (error.status, error.code) == (status, code), repr(error)
        return error
    raise AssertionError(f"{code} was expected")


found = probe(url)
good, problems = check_discovery(found)
assert good, problems
assert found["conformance_class"] in ("core", "extended", "full") and found["capabilities"]["streaming"]
refused(401, "missing_credential", lambda: connect(url).harnesses())
refused(401, "invalid_credential", lambda: connect(url, "stead_wrong").harnesses())

client = connect(url, key)
harness = client.harnesses()[0]
assert client.harness(harness["id"])["base"] == "shell"
assert "backends" in client.models()
assert all(isinstance(model["available"], bool) for model in client.harness_models(harness["id"])["models"])

first = client.run("echo hello; echo one > one.txt; printf '\\000\\377' > two.bin", harness_id=harness["id"])
assert first["status"] == "completed" and output_text(first) == "hello\n", first
assert sorted(file["filename"] for file in artifacts(first)) == ["one.txt", "two.bin"], artifacts(first)
assert client.get_response(first["id"]) == first
assert client.input_items(first["id"])["data"]

task = client.collect("for i in 1 2 3; do echo $i; sleep 0.1; done; cat one.txt", previous_response_id=first["id"])
assert task.status == "completed", task.status
assert task.sequence == (True, []), task.sequence
streamed = task.response
assert output_text(streamed) == "1\n2\n3\none\n", streamed
assert streamed["metadata"]["session_id"] == first["metadata"]["session_id"]
assert streamed["previous_response_id"] == first["id"]

third = client.continue_(streamed["id"], "exit 3")
assert third["status"] == "failed" and third["error"]["code"] == "harness_error", third

session = first["metadata"]["session_id"]
assert client.session(session)["id"] == session
assert session in [listed["id"] for listed in client.sessions(limit=5, harness=harness["id"])["sessions"]]
assert [turn["status"] for turn in client.turns(session)["turns"]] == ["completed", "completed", "failed"]
files = {file["filename"]: client.download_file(file["container_id"], file["id"]) for file in client.session_files(session)}
assert files == {"one.txt": b"one\n", "two.bin": b"\0\xff"}, files

same = [client.run("echo again >> log; wc -l < log", harness_id=harness["id"], key="a key of mine") for _ in range(2)]
assert same[0]["id"] == same[1]["id"] and output_text(same[1]) == "1\n", same

long = client.run("echo begun; sleep 300", harness_id=harness["id"], background=True)
assert long["status"] == "in_progress", long
refused(409, "session_busy", lambda: client.continue_(long["id"], "true"))
client.cancel(long["id"])
assert client.wait(long["id"], interval=0.05, timeout=30)["status"] == "cancelled"
assert client.cancel(long["id"])["status"] == "cancelled"
assert output_text(client.continue_(long["id"], "echo on")) == "on\n"

client.delete_response(third["id"])
refused(404, "response_not_found", lambda: client.get_response(third["id"]))
client.delete_session(session)
refused(404, "session_not_found", lambda: client.session(session))
refused(404, "file_not_found", lambda: client.download_file(artifacts(first)[0]["container_id"], artifacts(first)[0]["file_id"]))
refused(404, "harness_not_found", lambda: client.run("true", harness_id="chrn_018f3c2a7b4c7d3e9f6a5b4c3d2e1f00"))
print("all done")
