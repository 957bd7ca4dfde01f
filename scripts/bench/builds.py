"""Figure c: builds from nothing and again, beside the same installers by hand."""

import json
import os
import shutil
import subprocess

from samples import Figure, in_turn, timed
from server import Server

PYTHON = "requests flask jinja2 click pyyaml numpy rich attrs python-dateutil markdown".split()
NODE = {"dayjs": "^1.11.0", "semver": "^7.6.0"}
BY_HAND = "python3 -m venv .venv && .venv/bin/pip install --disable-pip-version-check -r requirements.txt && npm install"


def manifests():
    package = {"name": "bench", "private": True, "version": "1.0.0", "dependencies": NODE}
    return {
        "requirements.txt": "\n".join(PYTHON) + "\n",
        "package.json": json.dumps(package) + "\n",
        "app.py": "print('hello 0')\n",
    }


def run(bench):
    with Server(bench.binaries, bench.directory("build") / "data") as server:
        yield from measure(bench, server.client())


def measure(bench, client):
    projects = []

    def cold(round_number):
        # Another name is another mount path, so no layer fits, and installers' caches belong to one project.
        project = client.project(f"Build {round_number}")
        for path, text in manifests().items():
            client.put(project, path, text.encode())
        projects.append(project)
        bench.say(f"cold build {round_number + 1}")
        return timed(lambda: client.build(project))

    by_hand = ByHand(bench)
    cold_samples, hand_samples = in_turn(bench.quick, cold, by_hand.install, wanted=3)
    bench.say("rebuilds")
    project = projects[-1]

    def unchanged(_):
        return timed(lambda: client.build(project))

    def changed(round_number):
        client.put(project, "app.py", f"print('hello {round_number + 1}')\n".encode())
        return timed(lambda: client.build(project))

    same, line, hand_again = in_turn(bench.quick, unchanged, changed, by_hand.again)
    by_hand.remove()
    request = "POST /v1/environments/…/build, until the build is ready"
    hand = Figure("venv + pip + npm by hand", hand_samples, command=BY_HAND)
    again = Figure("pip + npm again by hand", hand_again, command=ByHand.AGAIN)
    yield Figure("cold build, 10 + 2 packages", cold_samples, command=request, yardstick=hand,
                 note="both begin with empty download caches; the build also isolates, seals and records")
    yield Figure("  rebuild, nothing changed", same, command=request, yardstick=again)
    yield Figure("  rebuild, one line changed", line, command="PUT app.py (not timed); " + request, yardstick=again)


class ByHand:
    """The same manifests in a directory, with caches that are empty at first."""

    AGAIN = ".venv/bin/pip install --disable-pip-version-check -r requirements.txt && npm install"

    def __init__(self, bench):
        self.bench = bench
        self.place = None

    def install(self, _):
        self.remove()
        self.place = self.bench.directory("hand")
        for path, text in manifests().items():
            (self.place / path).write_text(text)
        self.bench.say("the same by hand")
        return self._run(BY_HAND)

    def again(self, _):
        return self._run(self.AGAIN)

    def remove(self):
        if self.place:
            shutil.rmtree(self.place, ignore_errors=True)

    def _run(self, command):
        caches = {"PIP_CACHE_DIR": self.place / ".cache-pip", "npm_config_cache": self.place / ".cache-npm"}
        environment = dict(os.environ, npm_config_audit="false", npm_config_fund="false",
                           npm_config_update_notifier="false", **{name: str(path) for name, path in caches.items()})
        steps = ["/bin/sh", "-ec", command.replace("python3", "/usr/bin/python3", 1)]

        def steps_done():
            done = subprocess.run(steps, cwd=self.place, env=environment, capture_output=True, text=True)
            if done.returncode != 0:
                raise RuntimeError(f"by hand: {done.stderr[-1000:]}")

        return timed(steps_done)
