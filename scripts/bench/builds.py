"""Figure c: builds from nothing and again, beside the same installers by hand."""

import json
import os
import shutil
import subprocess

from samples import Figure, Goal, in_turn, timed
from server import Server

PYTHON = "requests flask jinja2 click pyyaml numpy rich attrs python-dateutil markdown".split()
NODE = {"dayjs": "^1.11.0", "express": "^4.21.0", "lodash": "^4.17.21", "semver": "^7.6.0", "uuid": "^9.0.0"}
BY_HAND = "/usr/bin/python3 -m venv .venv && .venv/bin/pip install --disable-pip-version-check -r requirements.txt && npm ci"
AGAIN = ".venv/bin/pip install --disable-pip-version-check -r requirements.txt && npm ci"
BARE = ("(\"$UV\" venv -q .venv && \"$UV\" pip install -q --python .venv/bin/python --compile-bytecode -r requirements.txt) & "
        "npm ci; node=$?; wait $! && exit $node")
OWN = {
    "pyproject.toml": '[project]\nname = "own"\nversion = "1"\ndependencies = ["requests", "rich"]\n'
                      '[build-system]\nrequires = ["setuptools"]\nbuild-backend = "setuptools.build_meta"\n'
                      '[tool.setuptools]\npy-modules = ["own"]\n',
    "own.py": "VALUE = 0\n",
}


def run(bench):
    with Server(bench.binaries, bench.directory("build") / "data") as server:
        yield from measure(bench, server.client())


def measure(bench, client):
    hand = ByHand(bench)
    manifests = hand.manifests
    projects = []

    def cold(round_number):
        # Another name is another mount path, so no layer fits, and installers' caches belong to one project: what a new
        # workspace finds.
        project = client.project(f"Build {round_number}")
        for path, text in manifests.items():
            client.put(project, path, text.encode())
        projects.append(project)
        bench.say(f"cold build {round_number + 1}")
        return timed(lambda: client.build(project))

    measures = [cold, lambda _: hand.install(BY_HAND)]
    if bench.binaries.uv and os.path.exists(bench.binaries.uv):
        measures.append(lambda _: hand.install(BARE))
    cold_samples, hand_samples, *bare_samples = in_turn(bench.quick, *measures, wanted=7)
    bench.say("rebuilds")
    project = projects[-1]

    def unchanged(_):
        return timed(lambda: client.build(project))

    def changed(round_number):
        client.put(project, "app.py", f"print('hello {round_number + 1}')\n".encode())
        return timed(lambda: client.build(project))

    hand.install(BY_HAND)
    same, line, hand_again = in_turn(bench.quick, unchanged, changed, lambda _: hand.run(AGAIN))
    hand.remove()
    request = "POST /v1/environments/…/build, until the build is ready"
    by_hand = Figure("venv + pip + npm ci by hand", hand_samples, command=BY_HAND)
    again = Figure("pip + npm ci again by hand", hand_again, command=AGAIN)
    build = Figure("cold build, 10 + 5 packages", cold_samples, command=request, yardstick=by_hand, goal=Goal("faster", 3.5),
                   note="all begin with empty download caches; the build also isolates, seals and records")
    yield build
    if bare_samples:
        bare = Figure("uv and npm ci side by side", bare_samples[0], command=BARE)
        yield Figure("  beside bare installers", cold_samples, command=request, yardstick=bare, goal=Goal("ratio", 1.15))
    yield Figure("  rebuild, nothing changed", same, command=request, yardstick=again)
    yield Figure("  rebuild, one line changed", line, command="PUT app.py (not timed); " + request,
                 yardstick=Figure("the cold build", cold_samples), goal=Goal("faster", 100))
    yield from own_package(bench, client, request)


def own_package(bench, client, request):
    """A project that installs itself: after a changed line that package is built and installed again, and no other."""
    project = client.project("Own package")
    for path, text in OWN.items():
        client.put(project, path, text.encode())
    first = timed(lambda: client.build(project))

    def changed(round_number):
        client.put(project, "own.py", f"VALUE = {round_number + 1}\n".encode())
        return timed(lambda: client.build(project))

    (samples,) = in_turn(bench.quick, changed, wanted=7)
    yield Figure("  rebuild of one that installs itself", samples, command="PUT own.py (not timed); " + request,
                 yardstick=Figure("its first build", [first]), goal=Goal("value", 3.0))


class ByHand:
    """The same manifests in a directory, with caches that are empty at first."""

    def __init__(self, bench):
        self.bench = bench
        self.place = None
        package = {"name": "bench", "private": True, "version": "1.0.0", "dependencies": NODE}
        self.manifests = {
            "requirements.txt": "\n".join(PYTHON) + "\n",
            "package.json": json.dumps(package) + "\n",
            "app.py": "print('hello 0')\n",
        }
        self._begin()
        self.run("npm install --package-lock-only")
        self.manifests["package-lock.json"] = (self.place / "package-lock.json").read_text()
        self.remove()

    def install(self, command):
        self._begin()
        self.bench.say("the same by hand")
        return self.run(command)

    def _begin(self):
        self.remove()
        self.place = self.bench.directory("hand")
        for path, text in self.manifests.items():
            (self.place / path).write_text(text)

    def remove(self):
        if self.place:
            shutil.rmtree(self.place, ignore_errors=True)
            self.place = None

    def run(self, command):
        caches = {"PIP_CACHE_DIR": ".cache-pip", "UV_CACHE_DIR": ".cache-uv", "npm_config_cache": ".cache-npm"}
        environment = dict(os.environ, UV=self.bench.binaries.uv, npm_config_audit="false", npm_config_fund="false",
                           npm_config_update_notifier="false",
                           **{name: str(self.place / path) for name, path in caches.items()})

        def steps_done():
            done = subprocess.run(["/bin/sh", "-ec", command], cwd=self.place, env=environment, capture_output=True, text=True)
            if done.returncode != 0:
                raise RuntimeError(f"by hand: {done.stderr[-1000:]}")

        return timed(steps_done)
