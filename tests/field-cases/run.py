#!/usr/bin/env python3
"""Runs the cases of this folder against a UHP 2026-09-28 server (Environments chapter).

    python3 run.py --base-url http://127.0.0.1:7077 --key KEY
                   [--cases DIR] [--only C001,C002] [--kind archive,build] [--json report.json]

Python 3.11, standard library only. The server must offer the capability `environments` and, for
what is looked at from inside a session, the harness base `shell`: the input of a task is a bash
script that runs in the session's working directory, its standard output is the answer text, and
a non-zero exit is a failed response.

Each case gets a fresh environment; requests go out byte for byte (raw body, raw path). One line
per case, `PASS|FAIL|SKIP Cnnn title: reason`, then `N passed, N failed, N skipped`. Exit status:
0 no failure, 1 at least one, 2 the run could not start. A case that cannot be driven here is a
SKIP with its reason; a sentence under "rules" that this program does not test is counted on the
line and listed in the report ("unchecked").

`any_of`: one of the outcomes must hold in all its parts. Where two of them overlap, the first that
holds is the one reported. An outcome other than the one README.md chooses is noted; with --decided
it is a failure.

Some cases look at the server's own machine (files left behind, processes, memory). They do so only
when the server's address is a loopback one; --search, --server-pid and --server-log widen the view.
"""
import argparse
import base64
import contextlib
import glob
import hashlib
import http.client
import http.server
import io
import ipaddress
import json
import os
import re
import secrets
import select
import shlex
import shutil
import socket
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
import urllib.parse
import zipfile

MARK = "kept-by-runner.txt"          # lies in the source before a request that may be refused
DEPS = (".venv", "node_modules", "apt")
POLICY = re.compile(r"(?i)loopback|private (network|address|ip|range)|internal|link-local|not (an )?allowed|policy|"
                    r"public address|local (address|network|host)|localhost|outbound|egress|scheme|"
                    r"only https|https (only|is required)|(must be|must use|use) https")


class Skip(Exception):
    pass


class OutOfTime(Exception):
    pass


def sha(data):
    return hashlib.sha256(data).hexdigest()


def enc(path):
    return urllib.parse.quote(path, safe="/")


def short(x, n=160):
    s = x if isinstance(x, str) else repr(x)
    s = s.replace("\n", "\\n").replace("\r", "\\r")
    return s if len(s) <= n else s[:n] + "..."


# ---------------------------------------------------------------- HTTP, nothing normalised
class Reply:
    def __init__(self, status, headers, body, seconds):
        self.status, self.headers, self.body, self.seconds = status, headers, body, seconds

    def header(self, name):
        return next((v for k, v in self.headers if k.lower() == name.lower()), None)

    @property
    def json(self):
        try:
            return json.loads(self.body.decode("utf-8"))
        except ValueError:
            return None

    @property
    def error(self):
        j = self.json
        e = j.get("error") if isinstance(j, dict) else None
        return e if isinstance(e, dict) else {}

    @property
    def code(self):
        return self.error.get("code")

    @property
    def message(self):
        return str(self.error.get("message") or "")

    @property
    def good(self):
        return 200 <= self.status < 300

    def __str__(self):
        if self.good:
            return f"{self.status}"
        return f"{self.status} {self.code or ''} {short(self.message or self.body[:120].decode('utf-8', 'replace'))}".strip()


class Client:
    def __init__(self, base, key):
        u = urllib.parse.urlsplit(base)
        if u.scheme not in ("http", "https") or not u.hostname:
            raise SystemExit("--base-url must be http:// or https://")
        self.tls, self.host = u.scheme == "https", u.hostname
        self.port = u.port or (443 if self.tls else 80)
        self.prefix, self.key = u.path.rstrip("/"), key
        self.deadline = None

    @property
    def loopback(self):
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"

    def left(self, most):
        if self.deadline is None:
            return most
        rest = self.deadline - time.monotonic()
        if rest <= 0:
            raise OutOfTime()
        return min(most, rest)

    def connect(self, timeout):
        kind = http.client.HTTPSConnection if self.tls else http.client.HTTPConnection
        return kind(self.host, self.port, timeout=timeout)

    def start(self, c, method, path, ctype, headers, key):
        c.putrequest(method, self.prefix + path, skip_accept_encoding=True)
        key = self.key if key is None else key
        if key:
            c.putheader("Authorization", "Bearer " + key)
        if ctype is not None:
            c.putheader("Content-Type", ctype)
        for k, v in (headers or {}).items():
            c.putheader(k, v)

    def request(self, method, path, body=None, ctype=None, headers=None, key=None, timeout=120):
        t0 = time.monotonic()
        c = self.connect(self.left(timeout))
        try:
            self.start(c, method, path, ctype, headers, key)
            if body is not None or method in ("POST", "PUT", "PATCH"):
                c.putheader("Content-Length", str(len(body or b"")))
            try:
                c.endheaders()
                if body:
                    c.send(body)
            except (BrokenPipeError, ConnectionResetError):
                pass                                    # an early answer may be waiting
            r = c.getresponse()
            data = r.read()
            return Reply(r.status, r.getheaders(), data, time.monotonic() - t0)
        except TimeoutError:
            if self.deadline is not None and time.monotonic() >= self.deadline - 0.05:
                raise OutOfTime() from None
            return Reply(0, [], b"no answer within %d s" % timeout, time.monotonic() - t0)
        except (OSError, http.client.HTTPException) as e:
            return Reply(0, [], f"connection: {type(e).__name__}: {e}".encode(), time.monotonic() - t0)
        finally:
            c.close()

    def js(self, method, path, obj=None, **kw):
        body = None if obj is None else json.dumps(obj).encode()
        return self.request(method, path, body, None if obj is None else "application/json", **kw)

    def zeros(self, path, size, chunked=False, declared=None, cap=None):
        """PUT `size` zero bytes; stops as soon as the server answers. Returns (reply, bytes sent)."""
        t0, sent = time.monotonic(), 0
        c = self.connect(self.left(120))
        try:
            self.start(c, "PUT", path, "application/octet-stream", None, None)
            if chunked:
                c.putheader("Transfer-Encoding", "chunked")
            else:
                c.putheader("Content-Length", str(size if declared is None else declared))
            c.endheaders()
            block = bytes(65536)
            try:
                while sent < size and (cap is None or sent < cap):
                    if select.select([c.sock], [], [], 0.5 if sent in (0, 65536) else 0)[0]:
                        break
                    self.left(1)
                    part = block[:min(len(block), size - sent)]
                    c.send(b"%x\r\n%s\r\n" % (len(part), part) if chunked else part)
                    sent += len(part)
                else:
                    if chunked and sent >= size:
                        c.send(b"0\r\n\r\n")
                    elif sent < size or (declared or 0) > sent:
                        c.sock.shutdown(socket.SHUT_WR)
            except (BrokenPipeError, ConnectionResetError):
                pass
            r = c.getresponse()
            return Reply(r.status, r.getheaders(), r.read(), time.monotonic() - t0), sent
        except (OSError, http.client.HTTPException) as e:
            return Reply(0, [], f"connection: {type(e).__name__}: {e}".encode(), time.monotonic() - t0), sent
        finally:
            c.close()


# ---------------------------------------------------------------- verdicts
class Log:
    def __init__(self):
        self.checks, self.failures, self.notes, self.blocked, self.done = 0, [], [], [], set()
        self.outcomes = []

    def ok(self, cond, text):
        self.checks += 1
        if not cond:
            self.failures.append(text)
        return bool(cond)

    def note(self, text):
        if text not in self.notes:
            self.notes.append(text)

    def block(self, text):
        if text not in self.blocked:
            self.blocked.append(text)

    def take(self, other):
        self.checks += other.checks
        self.failures += other.failures
        for n in other.notes:
            self.note(n)
        for b in other.blocked:
            self.block(b)
        self.done |= other.done
        self.outcomes += other.outcomes


# ---------------------------------------------------------------- one case: the objects it makes
class Run:
    def __init__(self, cl, opts, case, folder):
        self.cl, self.opts, self.case, self.folder = cl, opts, case, folder
        self.id, self.expect, self.req = case["id"], case["expect"], case.get("request") or {}
        self.log, self.made, self.harness = Log(), [], {}
        tokens = [t for x in [self.expect] + list(self.expect.values()) if isinstance(x, dict)
                  for t in x.get("processes_gone", [])]
        self.older = processes(self, tokens) or {} if tokens else {}
        if self.older:
            self.log.note("ran before the case already: " + ", ".join(sorted(set(self.older.values()))))

    def bytes(self, name):
        with open(os.path.join(self.folder, name), "rb") as f:
            return f.read()

    # -- environments
    def env(self):
        name = f"case {self.id.lower()} {secrets.token_hex(4)}"
        r = self.cl.js("POST", "/v1/environments", {"name": name})
        j = r.json
        if not (r.good and isinstance(j, dict) and j.get("id")):
            raise RuntimeError(f"POST /v1/environments: {r}")
        j["E"] = "/v1/environments/" + j["id"]
        self.made.append(("DELETE", j["E"]))
        return j

    def get_env(self, env):
        j = self.cl.js("GET", env["E"]).json
        return j if isinstance(j, dict) else {}

    def mount(self, env):
        if not env.get("mount"):
            env["mount"] = self.get_env(env).get("mount") or "/env/" + str(env.get("slug"))
        return env["mount"]

    def entries(self, env):
        r = self.cl.request("GET", env["E"] + "/files")
        j = r.json
        if not (r.status == 200 and isinstance(j, dict) and isinstance(j.get("entries"), list)):
            raise RuntimeError(f"GET {{E}}/files: {r} without 'entries'")
        return j["entries"]

    def tree(self, env):
        """path -> None for a folder, size for a file, as the file list shows it"""
        return {e["path"]: None if e.get("dir") else e.get("bytes") for e in self.entries(env)}

    def get(self, env, path):
        return self.cl.request("GET", f"{env['E']}/files/{enc(path)}")

    def put(self, env, path, data, log=None):
        r = self.cl.request("PUT", f"{env['E']}/files/{enc(path)}", data, "application/octet-stream")
        if not r.good:
            raise RuntimeError(f"PUT {path}: {r}")
        return r

    def snapshot(self, env, most=300):
        """path -> None for a folder, (size, sha256 or None) for a file"""
        out, n = {}, 0
        for p, size in sorted(self.tree(env).items()):
            if size is None:
                out[p] = None
                continue
            n += 1
            h = None
            if n <= most and (size or 0) <= 8 << 20:
                r = self.get(env, p)
                h = sha(r.body) if r.status == 200 else f"GET gave {r.status}"
            out[p] = (size, h)
        return out

    def import_file(self, env, name, query="", ctype="application/octet-stream", data=None):
        path = env["E"] + "/import" + ("?" + query if query else "")
        return self.cl.request("POST", path, self.bytes(name) if data is None else data, ctype,
                               timeout=self.opts.timeout)

    # -- builds
    def build(self, env, wait=True, most=None):
        """POST build and wait for its end. Returns the record, with 'seconds'."""
        t0 = time.monotonic()
        r = self.cl.js("POST", env["E"] + "/build", timeout=60)
        j = r.json
        if not (r.good and isinstance(j, dict) and j.get("version")):
            if r.status == 501 or r.code == "environment_unavailable":
                raise Skip(f"builds cannot run here: {r}")
            raise RuntimeError(f"POST {{E}}/build: {r}")
        env["last"] = j["version"]
        env["post_seconds"] = r.seconds
        return self.wait_build(env, j["version"], t0, most) if wait else j

    def wait_build(self, env, version, t0, most=None):
        pause = 0.2
        while True:
            r = self.cl.request("GET", f"{env['E']}/builds/{version}")
            j = r.json
            if r.good and isinstance(j, dict) and j.get("status") not in ("building", "queued", "pending"):
                j["seconds"], j["get_seconds"] = time.monotonic() - t0, r.seconds
                e = j.get("error")
                j["error_text"] = str(e.get("message") or e) if isinstance(e, dict) else str(e or "")
                lg = j.get("log")
                j["log_text"] = lg if isinstance(lg, str) else "" if lg is None else json.dumps(lg, ensure_ascii=False)
                return j
            if not r.good and r.status != 0 and r.status < 500:
                raise RuntimeError(f"GET {{E}}/builds/{version}: {r}")
            if most and time.monotonic() - t0 > most:
                return None
            time.sleep(self.cl.left(pause))
            pause = min(1.0, pause * 1.3)

    # -- tasks
    def shell_harness(self, env=None):
        key = env["id"] if env else ""
        if key not in self.harness:
            body = {"name": f"case {self.id.lower()} {secrets.token_hex(3)}", "base": self.opts.base}
            if env:
                body["environment"] = env["id"]
            r = self.cl.js("POST", "/v1/harnesses", body)
            j = r.json
            if not (r.good and isinstance(j, dict) and j.get("id")):
                if r.code == "unsupported_base":
                    raise Skip(f"the harness base '{self.opts.base}' is not offered")
                raise RuntimeError(f"POST /v1/harnesses: {r}")
            self.harness[key] = j["id"]
            self.made.append(("DELETE", "/v1/harnesses/" + j["id"]))
        return self.harness[key]

    def task(self, script, env=None, limit=120, **more):
        """Runs one script as a task. Returns {status, text, error, session, id, seconds, reply}."""
        meta = {"harness_id": self.shell_harness(env)}
        body = {"input": script, "metadata": meta, "timeout_seconds": limit}
        body.update(more)
        r = self.cl.js("POST", "/v1/responses", body, timeout=limit + 60)
        t = self.read_task(r)
        if t["session"] and ("DELETE", "/v1/sessions/" + t["session"]) not in self.made:
            self.made.append(("DELETE", "/v1/sessions/" + t["session"]))
        return t

    @staticmethod
    def read_task(r):
        j = r.json if isinstance(r.json, dict) else {}
        text = "".join(c.get("text") or "" for o in j.get("output") or [] if isinstance(o, dict)
                       and o.get("type") == "message" for c in o.get("content") or []
                       if isinstance(c, dict) and c.get("type") == "output_text")
        e = j.get("error") if isinstance(j.get("error"), dict) else {}
        return {"status": j.get("status") if r.good else None, "text": text, "error": str(e.get("message") or ""),
                "code": e.get("code"), "session": (j.get("metadata") or {}).get("session_id") if r.good else None,
                "id": j.get("id"), "seconds": r.seconds, "reply": r, "metadata": j.get("metadata") or {}}

    def command(self, env, cmd, limit=120, **more):
        """One command in a session; returns (exit, stdout, stderr, task). Exit None: the task did not run it."""
        script = (
            "set +e +u\nCMD=$(printf %s '" + base64.b64encode(cmd.encode()).decode() + "' | base64 -d)\n"
            "exec 5>&1\n"
            "E=$( { { O=$(bash -c \"$CMD\" </dev/null 2>&4 5>&- | base64 | tr -d '\\n'; exit ${PIPESTATUS[0]}); R=$?\n"
            "printf 'CASE-R %d\\nCASE-O %s\\n' \"$R\" \"$O\" >&5; } 4>&1; } | base64 | tr -d '\\n')\n"
            "printf 'CASE-E %s\\n' \"$E\"\n")
        t = self.task(script, env, limit, **more)
        got = dict(re.findall(r"^CASE-([ROE]) ?(.*)$", t["text"], re.M))
        if "R" not in got:
            return None, b"", b"", t
        return int(got["R"]), base64.b64decode(got.get("O", "")), base64.b64decode(got.get("E", "")), t

    def version_tree(self, env):
        """What a session sees below the mount, dependency folders left out:
        path -> {type, mode, size, link, sha}"""
        prune = " -o ".join(f"-path ./{d}" for d in DEPS)
        cmd = (f"cd {shlex.quote(self.mount(env))} || exit 9\n"
               f"find . -mindepth 1 \\( {prune} \\) -prune -o -printf '%y\\t%m\\t%s\\t%l\\t%p\\0' | base64 | tr -d '\\n'\n"
               f"echo\n"
               f"find . -mindepth 1 \\( {prune} \\) -prune -o -type f -print0 | xargs -0 -r sha256sum -z 2>/dev/null"
               f" | base64 | tr -d '\\n'\nexit 0\n")
        rc, out, err, t = self.command(env, cmd)
        if rc != 0:
            why = short(err.decode("utf-8", "replace")) if rc is not None else task_said(t)
            raise RuntimeError(f"the version cannot be listed in a session: {why}")
        a, _, b = out.partition(b"\n")
        tree = {}
        for rec in base64.b64decode(a).split(b"\0"):
            if rec:
                ty, mode, size, link, p = rec.split(b"\t", 4)
                tree[os.fsdecode(p)[2:]] = {"type": ty.decode(), "mode": int(mode, 8), "size": int(size),
                                            "link": os.fsdecode(link), "sha": None}
        for rec in base64.b64decode(b).split(b"\0"):
            if rec:
                p = os.fsdecode(rec[66:])[2:]
                if p in tree:
                    tree[p]["sha"] = rec[:64].decode()
        return tree

    # -- afterwards
    def clean(self):
        self.cl.deadline = time.monotonic() + 30
        left = []
        with contextlib.suppress(OutOfTime):
            for method, path in sorted(self.made, key=lambda m: ("/sessions/" not in m[1], "/harnesses/" not in m[1])):
                if self.opts.keep:
                    continue
                r = self.cl.js(method, path, timeout=15)
                for _ in range(5):
                    if r.code not in ("environment_busy", "session_busy"):
                        break
                    time.sleep(1)
                    r = self.cl.js(method, path, timeout=15)
                if not r.good and r.status != 404:
                    left.append(f"{path} ({r.status} {r.code or ''})".replace(" )", ")"))
        return left


def task_said(t):
    if t["status"] is None:
        return f"task refused: {t['reply']}"
    return f"task {t['status']}: {t['code'] or ''} {short(t['error'])} output {short(t['text'], 80)}"


# ---------------------------------------------------------------- what one request led to
class Seen:
    """One import (or git import, or nothing) in one environment, and what can be seen of it later."""

    def __init__(self, run, env, name=None):
        self.run, self.env, self.name = run, env, name
        self.reply, self.before, self.after, self.light = None, {}, {}, False
        self._record = self._version = self._fail = None
        self.cache, self.tasks = {}, []

    def listed(self):
        self.after = self.run.snapshot(self.env)

    @property
    def record(self):
        if self._fail:
            raise self._fail
        if self._record is None:
            try:
                self._record = self.run.build(self.env)
            except (RuntimeError, Skip) as e:
                self._fail = e
                raise
            self.source_after_build = self.run.snapshot(self.env)
        return self._record

    @property
    def version(self):
        if self._version is None:
            rec = self.record
            if rec.get("status") != "ready":
                raise RuntimeError(f"build {rec.get('status')}: {short(rec['error_text'])}")
            self._version = self.run.version_tree(self.env)
        return self._version

    def session(self, cmd, limit=120):
        if cmd not in self.cache:
            self.cache[cmd] = self.run.command(self.env, cmd, limit)
            self.tasks.append(self.cache[cmd][3])
        return self.cache[cmd]


# ---------------------------------------------------------------- judging
def judge(exp, seen, log):
    """Every part of one expectation, against what was seen."""
    if "any_of" in exp:
        tried, hit = [], None
        for n, alt in enumerate(exp["any_of"]):
            one = Log()
            judge(alt, seen, one)
            name = alt.get("name") or describe(alt, n)
            if not one.failures and hit is None:
                hit = (n, alt, name, one)
            tried.append((name, one))
        if hit:
            log.take(hit[3])
            log.outcomes.append(hit[2])
            if not decided(seen.name, hit[1], exp["any_of"]):
                text = f"outcome '{hit[2]}' is accepted but is not the one README.md chooses"
                if seen.run.opts.decided:
                    log.ok(False, text)
                else:
                    log.note(text)
        else:
            log.ok(False, "no accepted outcome holds: " + " | ".join(f"[{n}] {o.failures[0]}" for n, o in tried))
    if "import" in exp:
        judge_import(exp["import"], exp, seen, log)
    if "max_seconds" in exp and seen.reply is not None:
        log.ok(seen.reply.seconds <= exp["max_seconds"],
               f"the import took {seen.reply.seconds:.1f} s, at most {exp['max_seconds']} s")
    guarded(log, judge_build, exp, seen)
    if not (exp.get("build") and log.failures):
        guarded(log, judge_sessions, exp, seen)
    for text in exp.get("rules", []):
        apply_rule(text, seen, log)


def guarded(log, fn, *args):
    try:
        fn(*args, log)
    except Skip as e:
        log.block(str(e))
    except RuntimeError as e:
        log.ok(False, str(e))


def describe(alt, n):
    imp, b = alt.get("import") or alt, alt.get("build")
    if b:
        return "build " + str(b.get("status"))
    st = imp.get("status") or []
    return f"{n + 1}: " + ("refused" if st and min(st) >= 400 else "accepted")


def decided(name, alt, alts):
    """The choices README.md makes where the protocol leaves one."""
    imp = alt.get("import") or {}
    if any("dropped" in a.get("name", "") for a in alts) and "dropped" not in alt.get("name", ""):
        return False
    refused = imp.get("unchanged") and min(imp.get("status") or [0]) >= 400
    other = any(min((a.get("import") or {}).get("status") or [999]) < 400 for a in alts)
    fixed = name and (re.search(r"\.tar\.(bz2|xz|zst)$", name) or re.search(r"-dup\.", name))
    return not (refused and other and fixed)


def judge_import(imp, exp, seen, log):
    r, run = seen.reply, seen.run
    ok = log.ok(r.status in imp["status"], f"import answered {r}, expected {'/'.join(map(str, imp['status']))}")
    if "code" in imp:
        ok &= log.ok(r.code in imp["code"], f"error code {r.code!r}, expected {' or '.join(imp['code'])}")
    if "message_matches" in imp:
        log.ok(re.search(imp["message_matches"], r.message), f"the message does not match {imp['message_matches']}: "
               f"{short(r.message)!r}")
    for text in imp.get("rules", []):
        apply_rule(text, seen, log)
    if imp.get("unchanged"):
        log.ok(seen.after == seen.before, "the source changed: " + diff(seen.before, seen.after))
    if not ok or min(imp["status"]) >= 400:
        return
    j = r.json if isinstance(r.json, dict) else {}
    skipped = j.get("skipped")
    log.ok(isinstance(skipped, int), f"the answer has no number 'skipped': {short(j)}")
    if imp.get("skipped") is not None:
        log.ok(skipped == imp["skipped"], f"skipped is {skipped}, expected {imp['skipped']}")
    if "skipped_in" in exp:
        log.ok(skipped in exp["skipped_in"], f"skipped is {skipped}, expected one of {exp['skipped_in']}")
    if "skipped_min" in exp:
        log.ok(isinstance(skipped, int) and skipped >= exp["skipped_min"],
               f"skipped is {skipped}, expected at least {exp['skipped_min']}")
    if "tree" not in imp:
        return
    got, want = seen.after, {e["path"]: e for e in imp["tree"]}
    for p, v in seen.before.items():
        if p not in want and "replace=" in run.req.get("query", ""):
            log.ok(p not in got, f"{p!r} is still there after replace")
        elif p not in want:
            log.ok(got.get(p) == v, f"{p!r}, which was there before, is gone or changed")
    parents = {"/".join(p.split("/")[:i]) for p in want for i in range(1, p.count("/") + 1)}
    for p, e in want.items():
        if not log.ok(p in got, f"{p!r} did not land"):
            continue
        if e["type"] == "dir":
            log.ok(got[p] is None, f"{p!r} is a file, expected a folder")
        elif log.ok(got[p] is not None, f"{p!r} is a folder, expected a file"):
            size, h = got[p]
            log.ok(size == e["size"], f"{p!r} is listed with {size} bytes, expected {e['size']}")
            log.ok(h == e["sha256"], f"{p!r} has other bytes than sent" if h and len(h) == 64 else
                   f"{p!r} cannot be read back: {h}")
    if imp.get("exact"):
        allowed = set(want) | parents | set(imp.get("optional", [])) | set(seen.before) | set(imp.get("links", {}))
        extra = sorted(set(got) - allowed)
        log.ok(not extra, f"landed and should not have: {short(extra)}")
    for p in imp.get("absent", []):
        log.ok(not any(q == p or q.startswith(p + "/") for q in got), f"{p!r} landed and should not have")
        g = run.get(seen.env, p)
        log.ok(g.status != 200, f"GET of {p!r} gave 200: {short(g.body[:60])}")
    if not run.opts.no_version and not seen.light and not log.failures:
        guarded(log, judge_version, imp, seen, want)


def diff(a, b):
    out = [f"{p!r} gone" for p in a if p not in b] + [f"{p!r} is new" for p in b if p not in a]
    out += [f"{p!r} differs" for p in a if p in b and a[p] != b[p]]
    return short(", ".join(out), 200)


def judge_version(imp, seen, want, log):
    """The same tree, as a built version shows it to a session: bytes, executable bit, kinds."""
    tree = seen.version
    for p, e in want.items():
        if p.split("/")[0] in DEPS:
            continue
        v = tree.get(p)
        if not log.ok(v is not None, f"version: {p!r} is not there"):
            continue
        log.ok(v["type"] == ("d" if e["type"] == "dir" else "f"), f"version: {p!r} has the kind {v['type']!r}")
        if e["type"] == "file":
            log.ok(v["sha"] is not None, f"version: {p!r} cannot be read in a session")
            log.ok(v["sha"] in (e["sha256"], None) and v["size"] == e["size"], f"version: {p!r} has other bytes")
            x = bool(int(e["mode"], 8) & 0o100)
            log.ok(bool(v["mode"] & 0o111) == x, f"version: {p!r} has mode {v['mode']:04o}, expected "
                   f"{'the' if x else 'no'} executable bit")
    for p, v in tree.items():
        if v["type"] == "f":
            log.ok(not v["mode"] & 0o7000, f"version: {p!r} has mode {v['mode']:04o}")
        elif v["type"] != "d" and p not in imp.get("links", {}):
            log.ok(False, f"version: {p!r} has the kind {v['type']!r}")
    for p, target in imp.get("links", {}).items():
        v = tree.get(p) or {}
        log.ok(v.get("type") == "l" and v.get("link") == target, f"version: {p!r} is not a link to {target!r}")
    extra = sorted(set(tree) - set(seen.after))
    if extra:
        log.note(f"the version also holds {short(extra, 80)}")
    source_kept(seen, log)


def source_kept(seen, log):
    log.ok(seen.source_after_build == seen.after, "the build changed the source: "
           + diff(seen.after, seen.source_after_build))


def norm(name):
    return re.sub(r"[-_.]+", "-", str(name)).lower()


def judge_build(exp, seen, log):
    b = exp.get("build")
    if not b:
        return
    if seen.reply is not None and not seen.reply.good:
        log.ok(False, f"import answered {seen.reply}")
        return
    rec = seen.record
    if not log.ok(rec.get("status") in b["status"].split("|"), f"build {rec.get('status')}, expected {b['status']}; error "
                  f"{short(rec['error_text'])!r}"):
        return
    if "max_seconds" in b:
        log.ok(rec["seconds"] <= b["max_seconds"], f"the build took {rec['seconds']:.0f} s, at most {b['max_seconds']} s")
    if "error_matches" in b:
        log.ok(re.search(b["error_matches"], rec["error_text"]), f"the error does not match {b['error_matches']}: "
               f"{short(rec['error_text'])!r}")
    for s in b.get("log_contains", []):
        log.ok(s in rec["log_text"], f"the log lacks {s!r}")
    if "log_matches" in b:
        log.ok(re.search(b["log_matches"], rec["log_text"]), f"the log does not match {b['log_matches']}")
    if "log_max_bytes" in b:
        n = len(rec["log_text"].encode("utf-8", "surrogatepass"))
        log.ok(n <= b["log_max_bytes"], f"the log has {n} bytes, at most {b['log_max_bytes']}")
    if b.get("packages"):
        have = rec.get("packages") if isinstance(rec.get("packages"), list) else seen.run.get_env(seen.env).get("packages")
        have = {(p.get("manager"), norm(p.get("name")), str(p.get("version"))) for p in have or [] if isinstance(p, dict)}
        for p in b["packages"]:
            log.ok((p["manager"], norm(p["name"]), p["version"]) in have,
                   f"packages lack {p['manager']} {p['name']} {p['version']}: {short(sorted(map(str, have)))}")
    if rec.get("status") != "ready":
        return
    source_kept(seen, log)
    e = seen.run.get_env(seen.env)
    log.ok(e.get("status") == "ready" and e.get("version") == rec.get("version"),
           f"after the build the environment says status {e.get('status')!r}, version {e.get('version')!r}")
    for f in b.get("version_files", []):
        v = seen.version.get(f["path"])
        if log.ok(v is not None, f"version: {f['path']!r} is not there"):
            log.ok(v["sha"] == f["sha256"], f"version: {f['path']!r} has other bytes ({v['size']}, expected {f['size']})")
    if b.get("version_absent"):
        names = " ".join(shlex.quote(f"{seen.run.mount(seen.env)}/{p}") for p in b["version_absent"])
        rc, out, _, t = seen.session(f"for p in {names}; do [ -e \"$p\" ] && echo \"$p\"; done; true")
        log.ok(rc == 0 and not out, f"still in the version: {short(out)}" if rc == 0 else task_said(t))


def judge_sessions(exp, seen, log):
    run = seen.run
    if not (exp.get("session") or exp.get("session_must_fail")):
        return
    m = run.mount(seen.env)
    if seen.reply is not None or not seen.env.get("last"):
        if seen.record.get("status") != "ready":
            log.ok(False, f"build {seen.record.get('status')}: {short(seen.record['error_text'])}")
            return
    for s in exp.get("session", []):
        if "for" in s and s["for"] != seen.name:
            continue
        cmd = s["run"].replace("{mount}", m)
        rc, out, err, t = seen.session(cmd)
        out, err = out.decode("utf-8", "replace"), err.decode("utf-8", "replace")
        name = f"session `{short(cmd, 60)}`"
        if rc is None:
            log.ok(False, f"{name}: {task_said(t)}")
            continue
        said = f"exit {rc}, stdout {short(out, 80)!r}, stderr {short(err, 120)!r}"
        if "exit" in s:
            log.ok(rc == s["exit"], f"{name}: {said}; expected exit {s['exit']}")
        if "exit_not" in s:
            log.ok(rc != s["exit_not"], f"{name}: exit {rc}, expected another")
        for key, val in (("stdout", out), ("stderr", err)):
            if key in s:
                log.ok(val == s[key].replace("{mount}", m), f"{name}: {said}; expected {key} {short(s[key], 80)!r}")
            if key + "_matches" in s:
                rx = s[key + "_matches"].replace("{mount}", re.escape(m))
                good = re.search(rx, val, re.M)
                if good and rx.startswith("^" + re.escape(m)):
                    good = all(re.search(rx, ln) for ln in val.splitlines() if ln)
                log.ok(good, f"{name}: {said}; expected {key} matching {rx}")
    for cmd in exp.get("session_must_fail", []):
        before = seen.version
        rc, out, err, t = seen.session(cmd.replace("{mount}", m))
        log.ok(rc != 0, f"session `{short(cmd, 60)}` succeeded")
    if exp.get("session_must_fail"):
        log.ok(run.version_tree(seen.env) == before, "a later session sees another tree")


# ---------------------------------------------------------------- sentences under "rules"
RULES = []


def rule(pattern):
    def wrap(fn):
        RULES.append((re.compile(pattern), fn))
        return fn
    return wrap


def apply_rule(text, seen, log):
    """Runs the check for a sentence; one without a check stays in 'unchecked'."""
    for rx, fn in RULES:
        m = rx.search(text)
        if m:
            def checked(lg):
                if fn(seen, lg, m) is not False:
                    lg.done.add(text)
            guarded(log, checked)
            return


def landed(seen):
    return seen.reply is None or seen.reply.good


def members(seen):
    """name -> (kind, bytes or link target) of an archive, for comparison only"""
    out, data = {}, seen.run.bytes(seen.name)
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as z:
            for i in z.infolist():
                link = (i.external_attr >> 16) & 0o170000 == 0o120000
                out[i.filename] = ("link" if link else "file", z.read(i))
    except Exception:
        with contextlib.suppress(Exception), tarfile.open(fileobj=io.BytesIO(data)) as t:
            for i in t:
                if i.issym():
                    out[i.name] = ("link", i.linkname.encode())
                elif i.isfile():
                    out[i.name] = ("file", t.extractfile(i).read())
    return out


@rule(r"^(\d+) files land$")
def _(seen, log, m):
    n = sum(v is not None for p, v in seen.after.items() if p != MARK)
    log.ok(n == int(m[1]), f"{n} files landed, expected {m[1]}")


@rule(r"^every path in GET .* reads back with 200")
def _(seen, log, m):
    for p, v in seen.after.items():
        if v is not None:
            r = seen.run.get(seen.env, p)
            log.ok(r.status == 200, f"listed path {p!r} reads back with {r}")


@rule(r"^one file holds '(.*)' under some valid name")
def _(seen, log, m):
    want = sha(m[1].replace("\\n", "\n").encode())
    log.ok(any(v and v[1] == want for v in seen.after.values()), f"no file holds {m[1]!r}")


@rule(r"readable (by the session user|in a session)")
def _(seen, log, m):
    if not landed(seen) or seen.run.opts.no_version or seen.light:
        return False
    for p, v in seen.version.items():
        log.ok(v["type"] != "f" or v["sha"], f"version: {p!r} cannot be read in a session")


@rule(r"^never a regular file whose content is the link's target")
def _(seen, log, m):
    targets = {sha(d): n for n, (k, d) in members(seen).items() if k == "link"}
    for p, v in seen.after.items():
        log.ok(not (v and v[1] in targets), f"{p!r} is a file that holds a link's target")


@rule(r"^GET \{E\}/files/(\S+) is 404")
def _(seen, log, m):
    r = seen.run.get(seen.env, m[1])
    log.ok(r.status == 404, f"GET {m[1]}: {r}, expected 404")


@rule(r"^if (\S+) lands, '(\S+)' is a real folder")
def _(seen, log, m):
    if m[1] in seen.after:
        log.ok(seen.after.get(m[2], 0) is None, f"{m[2]!r} is not a folder")


@rule(r"lists each path once")
def _(seen, log, m):
    paths = [e.get("path") for e in seen.run.entries(seen.env)]
    log.ok(len(paths) == len(set(paths)), "the file list shows a path twice: "
           + short(sorted({p for p in paths if paths.count(p) > 1})))


@rule(r"^no set-uid, set-gid or sticky bit")
def _(seen, log, m):
    if seen.run.opts.no_version or seen.light:
        return False
    for p, v in seen.version.items():
        log.ok(not v["mode"] & 0o7000, f"version: {p!r} has mode {v['mode']:04o}")


@rule(r"^the message names the formats")
def _(seen, log, m):
    log.ok(re.search("(?i)zip", seen.reply.message) and re.search("(?i)tar", seen.reply.message),
           f"the message does not name the accepted formats: {short(seen.reply.message)!r}")


@rule(r"^(\S+) is still there; (\S+) did not land")
def _(seen, log, m):
    log.ok(m[1] in seen.after, f"{m[1]} is gone")
    log.ok(m[2] not in seen.after, f"{m[2]} landed")


@rule(r"^GET \{E\}/files shows (\S+) only")
def _(seen, log, m):
    if not seen.reply.good:
        log.ok(set(seen.after) == {m[1]}, f"the source shows {short(sorted(seen.after))}")


@rule(r"^never ready with no package installed")
def _(seen, log, m):
    if seen.record.get("status") == "ready":
        pk = seen.record.get("packages") or seen.run.get_env(seen.env).get("packages")
        log.ok(pk, "ready, and no package is listed")


@rule(r"^the source's (\S+) is unchanged by a build|^GET \{E\}/files/(\S+) still gives the bytes that were sent")
def _(seen, log, m):
    name = m[1] or m[2]
    if seen.record and name in seen.after:
        sent = next((d for n, (k, d) in members(seen).items() if n.split("/")[-1] == name), None)
        r = seen.run.get(seen.env, name)
        log.ok(r.status == 200 and r.body == sent, f"{name} is not as sent: {r.status}, {len(r.body)} bytes")


@rule(r"^no file named '(.*)' in the version")
def _(seen, log, m):
    if seen.record.get("status") == "ready":
        log.ok(m[1].replace("\\r", "\r") not in seen.version, f"the version holds {m[1]!r}")


@rule(r"^the log says how many bytes were left out")
def _(seen, log, m):
    lg = seen.record["log_text"]
    log.ok(re.search(r"(?i)\d[\d,._ ]*\s*(more |further )?(bytes?|[kmg]i?b)\b", lg),
           f"no count of omitted bytes in a log of {len(lg)} characters")


@rule(r"^GET of the record answers within (\d+) s")
def _(seen, log, m):
    log.ok(seen.record["get_seconds"] <= int(m[1]), f"the record took {seen.record['get_seconds']:.1f} s")


@rule(r"^a turn that runs `(.*)` completes; the session is not lost")
def _(seen, log, m):
    if seen.record.get("status") == "ready":
        t = seen.run.task(m[1], seen.env)
        if log.ok(t["status"] == "completed", task_said(t)):
            t2 = seen.run.task(m[1], seen.env, previous_response_id=t["id"])
            log.ok(t2["status"] == "completed" and t2["session"] == t["session"], "second turn: " + task_said(t2))


@rule(r"^nothing under HOME or the cache folders shows up among the session's artifacts")
def _(seen, log, m):
    for s in {t["session"] for t in seen.tasks if t["session"]}:
        j = seen.run.cl.js("GET", f"/v1/sessions/{s}/files").json
        names = [str(f.get("path") or f.get("filename")) for f in (j or {}).get("files", [])]
        bad = [n for n in names if re.search(r"(^|/)(\.w|\.cache|\.config|\.npm|\.local)(/|$)", n)]
        log.ok(not bad, f"artifacts of a session show {short(bad)}")


@rule(r"^safe\.directory names the mount, not '\*'")
def _(seen, log, m):
    rc, out, _, t = seen.session("git config --get-all safe.directory; true")
    log.ok(rc == 0 and "*" not in out.decode().split(), f"safe.directory is {short(out)}" if rc == 0 else task_said(t))


@rule(r"^no \.git in GET")
def _(seen, log, m):
    bad = [p for p in seen.after if ".git" in p.split("/")]
    log.ok(not bad, f"the source shows {short(bad)}")


@rule(r"says which paths are LFS pointers")
def _(seen, log, m):
    ptr = [p for p, v in seen.after.items() if v and v[0] < 200
           and seen.run.get(seen.env, p).body.startswith(b"version https://git-lfs")]
    text = seen.reply.body.decode("utf-8", "replace")
    if not (all(p in text for p in ptr) and re.search("(?i)lfs", text)):
        text = seen.record["log_text"]
    log.ok(all(p in text for p in ptr) and re.search("(?i)lfs", text),
           f"neither the import answer nor the build log names the LFS pointers {ptr}")


@rule(r"^(the \d+-byte name cannot land|the background child may live on|the FIFO)")
def _(seen, log, m):
    return None                                     # covered by "skipped" or "max_seconds"


@rule(r"is valid JSON in valid UTF-8")
def _(seen, log, m):
    log.ok(isinstance(seen.record, dict), "the record is not valid JSON")


# ---------------------------------------------------------------- a git server on this machine
class GitServer:
    """/dumb/NAME static files, /smart/NAME git http-backend, anything else 401 with Basic."""

    def __init__(self, opts):
        self.root, self.hits, outer = tempfile.mkdtemp(prefix="case-git-"), [], self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                outer.hits.append(self.path)
                kind, _, rest = self.path.lstrip("/").partition("/")
                path, _, query = rest.partition("?")
                if kind == "dumb":
                    self.static(path)
                elif kind == "smart":
                    self.smart("/" + path, query)
                else:
                    self.answer(401, b"no\n", [("WWW-Authenticate", 'Basic realm="private"')])

            do_POST = do_HEAD = do_GET

            def static(self, path):
                full = os.path.realpath(os.path.join(outer.root, urllib.parse.unquote(path)))
                if full.startswith(os.path.realpath(outer.root) + os.sep) and os.path.isfile(full):
                    with open(full, "rb") as f:
                        self.answer(200, f.read(), [("Content-Type", "application/octet-stream")])
                else:
                    self.answer(404, b"not found\n", [])

            def smart(self, path, query):
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                env = dict(os.environ, GIT_PROJECT_ROOT=outer.root, GIT_HTTP_EXPORT_ALL="1", PATH_INFO=path,
                           QUERY_STRING=query, REQUEST_METHOD=self.command, CONTENT_LENGTH=str(len(body)),
                           CONTENT_TYPE=self.headers.get("Content-Type") or "", REMOTE_ADDR="127.0.0.1",
                           HTTP_CONTENT_ENCODING=self.headers.get("Content-Encoding") or "",
                           GIT_PROTOCOL=self.headers.get("Git-Protocol") or "")
                out = subprocess.run(["git", "http-backend"], input=body, env=env, capture_output=True).stdout
                head, _, data = out.partition(b"\r\n\r\n")
                hs = [tuple(x.strip() for x in h.split(":", 1)) for h in head.decode("latin-1").splitlines() if ":" in h]
                status = next((int(v.split()[0]) for k, v in hs if k.lower() == "status"), 200)
                self.answer(status, data, [h for h in hs if h[0].lower() != "status"])

            def answer(self, status, data, headers):
                self.send_response(status)
                for k, v in headers:
                    self.send_header(k, v)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(data)

            def log_message(self, *a):
                pass

        self.httpd = http.server.ThreadingHTTPServer((opts.git_bind, 0), Handler)
        self.httpd.daemon_threads = True
        threading.Thread(target=self.httpd.serve_forever, daemon=True).start()
        self.host = f"{opts.git_host}:{self.httpd.server_address[1]}"

    def add(self, name, data):
        """Unpacks a tar that holds one bare repository; returns its folder name below the root."""
        folder = os.path.join(self.root, name)
        os.makedirs(folder)
        with tarfile.open(fileobj=io.BytesIO(data)) as t:
            # Older interpreters have no filters.
            t.extractall(folder, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))
        repo = next(d for d, _, fs in os.walk(folder) if "HEAD" in fs and os.path.isdir(os.path.join(d, "objects")))
        os.makedirs(os.path.join(repo, "refs"), exist_ok=True)
        if shutil.which("git"):
            subprocess.run(["git", "-c", "safe.directory=*", "--git-dir", repo, "update-server-info"],
                           capture_output=True)
        return os.path.relpath(repo, self.root)

    def close(self):
        self.httpd.shutdown()
        self.httpd.server_close()
        shutil.rmtree(self.root, ignore_errors=True)


def git_import(run, env, git, url, ref=None, replace=None):
    """One git import; Skip when the server says that it will not talk to this address at all."""
    body = {"git": {"url": url}}
    if ref is not None:
        body["git"]["ref"] = ref
    if replace is not None:
        body["replace"] = replace
    hits = len(git.hits)
    r = run.cl.js("POST", env["E"] + "/import", body, timeout=run.opts.timeout)
    if not r.good and len(git.hits) == hits and POLICY.search(r.message) and \
            r.code in ("environment_invalid", "environment_unavailable"):
        raise Skip(f"the server's policy refuses the local git server: {r}")
    if not r.good and len(git.hits) == hits and r.code != "environment_invalid":
        run.log.note(f"no request reached the git server at {git.host} (--git-host names another address)")
    return r


# ---------------------------------------------------------------- the server's machine
def host_watch(run):
    """What "host_absent" paths look like before the case."""
    out = {}
    for pat in run.expect.get("host_absent", []):
        for p in host_find(run, pat):
            with contextlib.suppress(OSError):
                st = os.lstat(p)
                out[p] = (st.st_mtime_ns, st.st_ino)
    return out


def host_find(run, pat):
    pat = pat.split(" ")[0]
    if pat.startswith("/"):
        return glob.glob(pat)
    name = pat.rsplit("/", 1)[-1]
    return [p for d in run.opts.search for p in glob.glob(os.path.join(glob.escape(d), "**", name), recursive=True,
                                                           include_hidden=True)]


def host_check(run, before, seens):
    pats = run.expect.get("host_absent", [])
    if not pats:
        return
    log = run.log
    if not run.cl.loopback:
        log.note("host_absent not looked at: the server is on another machine")
    else:
        for pat in pats:
            if not pat.startswith("/") and not run.opts.search:
                log.note(f"host_absent {short(pat, 50)!r} not looked at: no --search DIR")
                continue
            for p in host_find(run, pat):
                st = os.lstat(p)
                if before.get(p) == (st.st_mtime_ns, st.st_ino):
                    log.note(f"{p} was there before the case; remove it and run again")
                elif "outside the source root" in pat and any(
                        q.split("/")[-1] == os.path.basename(p) for s in seens for q in s.after):
                    log.note(f"{p}: a path of that name is in the source, too")
                else:
                    log.ok(False, f"{p} is on the server's machine after the case")
            log.checks += 1
    names = [shlex.quote(p) if "*" not in p else p for p in (x.split(" ")[0] for x in pats) if p.startswith("/")]
    s = next((s for s in seens if s._record and s._record.get("status") == "ready"), None)
    if names and s:
        rc, out, _, t = s.session("ls -d " + " ".join(names) + " 2>/dev/null; true")
        log.ok(rc == 0 and not out, f"in a session: {short(out)} is there")


def processes(run, tokens, known=()):
    """{pid: token} of processes with a token in their arguments; None when the machine cannot be looked at."""
    if not (run.cl.loopback and os.path.isdir("/proc/self")):
        return None
    out = {}
    for p in glob.glob("/proc/[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            with open(p, "rb") as f:
                args = f.read().decode("utf-8", "replace").replace("\0", " ")
            pid = int(p.split("/")[2])
            out.update({pid: t for t in tokens if t in args and pid != os.getpid() and pid not in known})
    return out


def gone_check(run, tokens, wait=5):
    end = time.monotonic() + wait
    while True:
        left = processes(run, tokens, run.older)
        if not left or time.monotonic() > end:
            break
        time.sleep(0.3)
    if left is None:
        run.log.note("processes not looked at: the server is on another machine")
        return True
    return run.log.ok(not left, f"processes still run: {', '.join(sorted(set(left.values())))}")


class Memory:
    """Growth of the resident memory of --server-pid while a case runs."""

    def __init__(self, pid):
        self.pid, self.stop, self.start, self.most = pid, threading.Event(), self.now(pid), 0
        self.thread = threading.Thread(target=self.loop, daemon=True)
        if self.start:
            self.thread.start()

    @staticmethod
    def now(pid):
        with contextlib.suppress(OSError, TypeError, ValueError):
            with open(f"/proc/{int(pid)}/status") as f:
                return int(re.search(r"VmRSS:\s+(\d+)", f.read())[1]) * 1024
        return None

    def loop(self):
        while not self.stop.wait(0.05):
            self.most = max(self.most, self.now(self.pid) or 0)

    def judge(self, run, texts):
        self.stop.set()
        for text in texts:
            m = re.search(r"^server memory (?:grows by less than (\d+) MiB|does not grow with the body)", text)
            if m and self.start:
                grown = (self.most - self.start) >> 20
                if run.log.ok(grown < int(m[1] or 64), f"the server's memory grew by {grown} MiB"):
                    run.log.note(f"memory +{max(grown, 0)} MiB")
                run.log.done.add(text)


# ---------------------------------------------------------------- drivers
SHARED = ("session", "session_must_fail", "rules", "max_seconds")


def prepare(run):
    """A fresh environment; a marker file lies in it when a refusal is among the outcomes."""
    env, before = run.env(), run.req.get("before")
    if before is None and '"unchanged": true' in json.dumps(run.expect):
        before = {MARK: "mark\n"}
    for p, text in (before or {}).items():
        run.put(env, p, text.encode())
    return env


def parts(run):
    """(file name, its expectation) for every file of the case"""
    files = [f["name"] for f in run.case["files"]] or [None]
    exp = run.expect
    if "each" in exp:
        return [(n, (exp.get("exceptions") or {}).get(n) or exp["each"]) for n in files], True
    named = [(n, exp[n]) for n in files if n in exp]
    return (named, True) if named else ([(run.case["file"], exp)], False)


def drive_import(run):
    todo, many = parts(run)
    seens, before, git = [], host_watch(run), None
    try:
        for name, exp in todo:
            if name.endswith(".git.tar") and git is None:
                git = GitServer(run.opts)
            outcomes = {}
            for n, ctype in enumerate(run.req.get("content_types") or ["application/octet-stream"]):
                env = prepare(run)
                seen = Seen(run, env, name)
                seen.light = n > 0
                seen.before = run.snapshot(env)
                if name.endswith(".git.tar"):
                    seen.reply = git_import(run, env, git, f"http://{git.host}/dumb/" + git.add(secrets.token_hex(4), run.bytes(name)))
                else:
                    seen.reply = run.import_file(env, name, run.req.get("query", ""), ctype)
                seen.listed()
                seens.append(seen)
                one = Log()
                if any("at" in s for s in run.expect.get("steps", [])):
                    timed_steps(run, seen, one)
                judge(exp, seen, one)
                if many:
                    judge({k: run.expect[k] for k in SHARED if k in run.expect and (
                        k == "rules" or name == run.case["file"] or any("for" in s for s in run.expect.get("session", []))
                    ) and not (k.startswith("session") and seen.light)}, seen, one)
                    tag = name + (f" as {ctype}" if n else "")
                    one.failures = [f"{tag}: {f}" for f in one.failures]
                outcomes[ctype] = tuple(one.outcomes)
                if many:
                    one.outcomes = [f"{name} {o}" for o in one.outcomes]
                run.log.take(one)
            run.log.ok(len(set(outcomes.values())) < 2, f"{name}: the outcome depends on the content type: {outcomes}")
        steps = [s for s in run.expect.get("steps", []) if "at" not in s]
        if steps:
            run_steps(run, seens[0].env, steps)
        host_check(run, before, seens)
        if run.expect.get("processes_gone"):
            gone_check(run, run.expect["processes_gone"])
    finally:
        if git:
            git.close()


def run_steps(run, env, steps):
    """Requests in order; the words in them are the manifest's."""
    log, whole = run.log, {}
    for s in steps:
        path = s["path"].replace("{E}", env["E"])
        body = s["body"].encode() if isinstance(s.get("body"), str) else None
        if "body_file" in s:
            body = whole[path] = run.bytes(s["body_file"])
        if s["method"] in ("GET", "HEAD"):
            body = None
        if "json" in s:
            r = run.cl.js(s["method"], path, s["json"])
        else:
            r = run.cl.request(s["method"], path, body, "application/octet-stream" if body is not None else None,
                               {"Range": s["range"]} if "range" in s else None)
        name = f"{s['method']} {s['path']}" + (f" ({s['range']})" if "range" in s else "")
        if "range" in s and r.status == 200 and r.header("Content-Range") is None and path in whole:
            log.ok(r.body == whole[path], f"{name}: 200 without ranges, and not the whole body")
            continue
        if not check_step(s, r, name, log):
            continue
        if "range" in s:
            if r.status in (206, 416):
                log.ok(r.header("Content-Range") == s["content_range"], f"{name}: Content-Range {r.header('Content-Range')!r}")
            else:
                log.ok(r.header("Content-Range") is None, f"{name}: 200 with Content-Range")
            if s.get("sha256"):
                log.ok(sha(r.body) == s["sha256"], f"{name}: wrong bytes ({len(r.body)})")
        if "body_if_200" in s and r.status == 200:
            log.ok(r.body == s["body_if_200"].encode(), f"{name}: body {short(r.body)}")
        if "content_length" in s:
            log.ok(r.header("Content-Length") == str(s["content_length"]), f"{name}: Content-Length {r.header('Content-Length')}")
        if s["method"] == "HEAD":
            log.ok(not r.body, f"{name}: has a body")


def check_step(s, r, name, log):
    good = True
    if "status" in s:
        named = r.status == 422 and r.code == "environment_invalid" and 400 in s["status"]    # the protocol's own status
        good &= log.ok(r.status in s["status"] or named, f"{name}: {r}, expected {'/'.join(map(str, s['status']))}")
    if "code" in s:
        good &= log.ok(not r.good and r.code in s["code"], f"{name}: {r}, expected code {' or '.join(s['code'])}")
    if "detail_has" in s:
        d = r.error.get("detail")
        good &= log.ok(isinstance(d, dict) and d.get(s["detail_has"]) is not None,
                       f"{name}: error.detail lacks {s['detail_has']}: {short(d)}")
    return good


def timed_steps(run, seen, log):
    """Steps with "at": seconds after the first; the build they start becomes the case's build."""
    t0, env = time.monotonic(), seen.env
    for s in sorted((s for s in run.expect["steps"] if "at" in s), key=lambda s: s["at"]):
        time.sleep(max(0, t0 + s["at"] - time.monotonic()))
        path = s["path"].replace("{E}", env["E"])
        body = run.bytes(s["body_file"]) if "body_file" in s else s["body"].encode() if "body" in s else b""
        got = []
        ts = [threading.Thread(target=lambda: got.append(run.cl.request(
            s["method"], path, body, "application/octet-stream" if body else None))) for _ in range(s.get("times", 1))]
        for t in ts:
            t.start()
        for t in ts:
            t.join()
        name = f"{s['method']} {s['path']}"
        for key, n in s.get("status_counts", {}).items():
            have = sum(r.good if key == "2xx" else str(r.status) == key for r in got)
            log.ok(have == n, f"{name} x{len(got)}: {have} answered {key}, expected {n}")
        bad = [r for r in got if not r.good]
        if "code" in s:
            log.ok(all(r.code in s["code"] for r in bad), f"{name}: {short([str(r) for r in bad])}")
        if "status" in s:
            log.ok(all(r.status in s["status"] for r in got), f"{name}: {short([str(r) for r in got])}")
        for r in got:
            if r.good and path.endswith("/build"):
                env["last"] = r.json["version"]
    if env.get("last"):
        seen._record = run.wait_build(env, env["last"], t0)
        seen.listed()
        seen.source_after_build = seen.after


def drive_bodies(run):
    """JSON bodies for {E}/import, each of which has the same expected outcome."""
    env, exp, log = prepare(run), run.expect, run.log
    before, host, texts, secret = run.snapshot(env), host_watch(run), [], run.expect.get("secret")
    git = GitServer(run.opts) if "serve" in run.req else None
    argv, stop = set(), threading.Event()

    def watch():
        while not stop.wait(0.05):
            argv.update((processes(run, [secret]) or {}).values())
    if secret:
        threading.Thread(target=watch, daemon=True).start()
    try:
        for body in run.req["bodies"]:
            raw = json.dumps(body)
            name = short(json.dumps(body["git"]), 90)
            hits = 0
            if git:
                raw, hits = raw.replace("https://", "http://").replace("{host}", git.host), len(git.hits)
            r = run.cl.request("POST", run.req["path"].replace("{E}", env["E"]), raw.encode(), "application/json",
                               timeout=min(run.opts.timeout, exp.get("max_seconds", 30) * 3))
            if git and len(git.hits) == hits:
                if POLICY.search(r.message) and not r.good:
                    raise Skip(f"the server's policy refuses the local server: {r}")
                log.ok(False, f"{name}: no request reached the local server ({r}; --git-host names another address)")
            texts.append(r.body.decode("utf-8", "replace") + str(r.headers))
            one, seen = Log(), Seen(run, env)
            seen.reply, seen.before = r, before
            seen.listed()
            judge({k: exp[k] for k in ("import", "max_seconds") if k in exp}, seen, one)
            for text in exp.get("rules", []):
                if re.search(r"^the error says that credentials were refused", text):
                    one.done.add(text)
                    one.ok(re.search(r"(?i)credential|authenti|authori|password|sign.?in|log.?in|private|denied|401|403", r.message),
                           f"the message does not say that credentials were refused: {short(r.message)!r}")
            one.failures = [f"{name}: {f}" for f in one.failures]
            log.take(one)
        if secret:
            for p in ("", "/files", "/versions", "/harnesses"):
                texts.append(run.cl.js("GET", env["E"] + p).body.decode("utf-8", "replace"))
            texts.append(run.cl.js("GET", "/v1/environments").body.decode("utf-8", "replace"))
            if run.opts.server_log:
                with open(run.opts.server_log, errors="replace") as f:
                    texts.append(f.read())
            else:
                log.note("server log not looked at: no --server-log FILE")
            log.ok(not any(secret in t for t in texts), "the secret shows up in an answer or in the log")
            log.ok(secret not in argv, "the secret shows up among process arguments")
            for text in exp.get("rules", []):
                if text.startswith("the secret is in no answer"):
                    log.done.add(text)
        for a in run.req.get("also", []):
            log.note(f"not driven: {a}")
        host_check(run, host, [])
    finally:
        stop.set()
        if git:
            git.close()


def drive_refs(run):
    """One repository, many refs, from a static (dumb) remote and from git http-backend."""
    exp, log, git = run.expect, run.log, GitServer(run.opts)
    try:
        repo = git.add("repo", run.bytes(run.case["file"]))
        remotes = ["dumb"] + (["smart"] if shutil.which("git") else [])
        if len(remotes) == 1:
            log.note("no git on this machine: the smart remote was not driven")
        for kind in remotes:
            env = prepare(run)
            url = f"http://{git.host}/{kind}/{repo}"
            seen = Seen(run, env, run.case["file"])
            for n, want in enumerate(exp["refs"]):
                ref = None if want["ref"] == "(omitted)" else want["ref"]
                r = git_import(run, env, git, url, ref, True)
                if not log.ok(r.status in want["status"], f"{kind}, ref {want['ref']}: {r}"):
                    continue
                g = run.get(env, want["file"])
                log.ok(g.status == 200 and g.body == want["text"].encode(),
                       f"{kind}, ref {want['ref']}: {want['file']} is {short(g.body[:40])}, expected {want['text']!r}")
                seen.reply = r
                if n == 0:
                    seen.listed()
                    one = Log()
                    for text in exp.get("rules", []):
                        if text.startswith("no .git"):
                            apply_rule(text, seen, one)
                        elif "names the commit taken" in text:
                            known = subprocess.run(["git", "--git-dir", os.path.join(git.root, repo), "rev-parse", "refs/heads/main"],
                                                   capture_output=True, text=True).stdout.strip() if len(remotes) > 1 else ""
                            said = r.body.decode("utf-8", "replace")
                            if not (known and known[:7] in said) and not run.opts.no_version:
                                said += json.dumps(seen.record)
                            found = known[:7] in said if known else re.search(r"\b[0-9a-f]{40}\b", said)
                            one.ok(found, "neither the answer nor the build record names the commit")
                            one.done.add(text)
                    if not run.opts.no_version:
                        guarded(one, modes_check, exp.get("modes", {}), seen)
                    one.failures = [f"{kind}: {f}" for f in one.failures]
                    log.take(one)
            for want in exp.get("refused", []):
                before = run.snapshot(env)
                r = git_import(run, env, git, url, want["ref"], True)
                check_step(want, r, f"{kind}, ref {want['ref']!r}", log)
                if want.get("message_names_ref") and want["ref"] and not r.good:
                    log.ok(want["ref"] in r.message, f"{kind}: the message does not name {want['ref']!r}: {short(r.message)!r}")
                log.ok(run.snapshot(env) == before, f"{kind}, ref {want['ref']!r}: the source changed")
            amb = exp.get("ambiguous")
            if amb:
                r = git_import(run, env, git, url, amb["ref"], True)
                got = run.get(env, exp["refs"][0]["file"]).body.decode("utf-8", "replace") if r.good else r.code
                log.ok(got in amb["any_of"], f"{kind}, ambiguous ref {amb['ref']}: {short(str(got))} ({r})")
        for text in exp.get("rules", []):
            if text.startswith("works against the dumb remote") and len(remotes) == 2:
                log.done.add(text)
    finally:
        git.close()


def modes_check(modes, seen, log):
    for p, mode in modes.items():
        v = seen.version.get(p)
        if log.ok(v is not None, f"version: {p!r} is not there"):
            log.ok(bool(v["mode"] & 0o100) == bool(int(mode, 8) & 0o100), f"version: {p!r} has mode {v['mode']:04o}")


def drive_session(run):
    """Commands in a session with a small built environment."""
    if str(run.case.get("file") or "").endswith("env.json"):
        raise Skip("no UHP route sets environment values of a session")
    env = run.env()
    run.put(env, "readme.txt", b"readme\n")
    seen = Seen(run, env)
    seen.listed()
    if seen.record.get("status") != "ready":
        raise RuntimeError(f"build {seen.record.get('status')}: {short(seen.record['error_text'])}")
    judge(run.expect, seen, run.log)


def drive_exec(run):
    """The file is the input of a task of the base `shell`, without an environment."""
    log, limit = run.log, int(run.req.get("timeout_s") or 120)
    todo, many = [(f["name"], run.expect[f["name"]]) for f in run.case["files"] if f["name"] in run.expect], True
    if not todo:
        todo, many = [(run.case["file"], run.expect)], False
    for name, exp in todo:
        if "exec" not in exp:
            log.note(f"{name}: nothing that can be driven")
            continue
        times = next((int(m[1]) for m in (re.match(r"(\d+) runs in a row", t) for t in run.expect.get("rules", [])) if m), 1)
        if run.opts.quick:
            times = min(times, 2)
        warm, extra = None, 0
        if "max_seconds" in exp["exec"]:                # start the session first; its overhead is not the command's time
            warm = run.task("true", None, 60)
            extra = run.task("true", None, 60, previous_response_id=warm["id"])["seconds"] if warm["id"] else 0
        for n in range(times):
            one = Log()
            if "lines" in exp["exec"]:
                t = cut_and_return(run, run.bytes(name).decode(), one)
            else:
                more = {"previous_response_id": warm["id"]} if warm and warm["id"] else {}
                t = run.task(run.bytes(name).decode(), None, limit, **more)
                warm = t if warm and t["id"] else warm
            judge_exec(exp["exec"], t, one, extra)
            one.failures = [(f"{name}: " if many else "") + (f"run {n + 1}: " if times > 1 else "") + f for f in one.failures]
            log.take(one)
            if one.failures:
                break
            if exp.get("processes_gone") and n in (0, times - 1) and not gone_check(run, exp["processes_gone"]):
                break
    for text in all_rules(run.expect):
        if (re.match(r"\d+ runs in a row", text) and not run.opts.quick) or re.match(
                r"the background child|each line once|the command is not stopped|the exit status can|bytes exact where", text):
            log.done.add(text)


def same_text(got, want):
    return got == want or got == want.removesuffix("\n")


def judge_exec(x, t, log, extra=0):
    said = task_said(t)
    if x.get("timed_out"):
        over = t["status"] == "incomplete" or (t["status"] == "failed" and t["code"] == "timeout")
        log.ok(over, f"{said}; expected incomplete (time limit)")
        if t["status"] == "failed" and over:
            log.note("the time limit is reported as failed/timeout; a budget should end as incomplete")
    elif "stdout_bytes_sha256" in x:
        log.ok(t["reply"].status == 200 and t["status"] in ("completed", "failed"), said)
        body = t["text"].encode("utf-8", "surrogatepass")
        with contextlib.suppress(ValueError):
            if sha(base64.b64decode("".join(t["text"].split()), validate=True)) == x["stdout_bytes_sha256"]:
                body = None
        log.ok(body is None or "\ufffd" in t["text"] or sha(body) == x["stdout_bytes_sha256"]
               or re.search("(?i)binary|base64|bytes", t["text"]), "binary output is neither exact nor marked: "
               + short(t["text"], 80))
    else:
        log.ok(t["status"] == ("completed" if x.get("exit", 0) == 0 else "failed"), said)
    if "stdout" in x:
        log.ok(same_text(t["text"], x["stdout"]), f"output {short(t['text'])!r}, expected {short(x['stdout'])!r}")
    if "stdout_sha256" in x:
        both = (sha(t["text"].encode("utf-8", "surrogatepass")), sha((t["text"] + "\n").encode("utf-8", "surrogatepass")))
        log.ok(x["stdout_sha256"] in both, f"the output ({len(t['text'])} characters) has another sha256")
    if "stdout_not_contains" in x:
        log.ok(x["stdout_not_contains"] not in t["text"], f"the output holds {x['stdout_not_contains']!r}")
    if "stdout_contains" in x:
        log.ok(x["stdout_contains"] in t["text"], f"the output {short(t['text'])!r} lacks {x['stdout_contains']!r}")
    if "lines" in x:
        log.ok(t["text"].split() == x["lines"], f"the output has {len(t['text'].split())} lines, expected {len(x['lines'])} once each")
    if "max_seconds" in x:
        log.ok(t["seconds"] <= x["max_seconds"] + extra, f"it took {t['seconds']:.1f} s, at most {x['max_seconds']} s")


def cut_and_return(run, script, log):
    """Starts a streamed task, leaves after 5 s, comes back at 20 s and at the end."""
    cl, t0, buf, rid = run.cl, time.monotonic(), b"", None
    body = json.dumps({"input": script, "stream": True, "timeout_seconds": 120,
                       "metadata": {"harness_id": run.shell_harness()}}).encode()
    c = cl.connect(10)
    try:
        cl.start(c, "POST", "/v1/responses", "application/json", None, None)
        c.putheader("Content-Length", str(len(body)))
        c.endheaders(body)
        r = c.getresponse()
        while time.monotonic() - t0 < 5:
            if c.sock is not None:
                c.sock.settimeout(max(0.1, 5 - (time.monotonic() - t0)))
            part = r.read1(4096)
            if not part:
                break
            buf += part
    except (OSError, http.client.HTTPException):
        pass
    finally:
        c.close()
    m = re.search(rb'"id"\s*:\s*"(resp_[^"]+)"', buf)
    if not m:
        raise RuntimeError(f"no response id in the first 5 s of the stream: {short(buf[:150].decode('utf-8', 'replace'))}")
    rid = m[1].decode()
    time.sleep(cl.left(1 if run.opts.quick else max(0, t0 + 20 - time.monotonic())))
    t = run.read_task(cl.js("GET", "/v1/responses/" + rid))
    log.ok(t["status"] == "in_progress", f"15 s after the cut: {task_said(t)}; expected in_progress")
    while t["status"] == "in_progress" and time.monotonic() - t0 < 150:
        time.sleep(cl.left(1))
        t = run.read_task(cl.js("GET", "/v1/responses/" + rid))
    if t["session"]:
        run.made.append(("DELETE", "/v1/sessions/" + t["session"]))
    return t


# ---------------------------------------------------------------- the file routes
def drive_names(run):
    env, log = run.env(), run.log
    names = json.loads(run.bytes(run.case["file"]))

    def raw(method, path, body=None):
        return run.cl.request(method, f"{env['E']}/files/{path}", body,
                              "application/octet-stream" if body is not None else None)
    for name in names:
        path, body, tag = "d/" + urllib.parse.quote(name, safe=""), name.encode(), f"name {short(name, 40)!r}"
        r = raw("PUT", path, body)
        if any(ord(ch) < 32 for ch in name) and r.code == "environment_invalid":
            log.note(f"{tag} is refused, as it may be")
            log.ok("d/" + name not in run.tree(env), f"{tag}: refused and listed")
            continue
        if not log.ok(r.status in (200, 201, 204), f"{tag}: PUT {r}"):
            continue
        r = raw("GET", path)
        log.ok(r.status == 200 and r.body == body, f"{tag}: GET {r}, body {short(r.body, 40)}")
        listed = run.tree(env)
        log.ok("d/" + name in listed, f"{tag}: not in the list under this name: {short(sorted(p for p in listed if p != 'd'), 80)}")
        r = raw("DELETE", path)
        log.ok(r.status in (200, 204), f"{tag}: DELETE {r}")
        log.ok("d/" + name not in run.tree(env), f"{tag}: listed after DELETE")
        for p in run.tree(env):
            if p != "d" and p.startswith("d/"):
                raw("DELETE", enc(p))
    for text in run.expect.get("rules", []):
        if text.startswith("%2F in a URL"):
            r = raw("PUT", "d/p%2Fq.txt", b"slash\n")
            g, h, d = raw("GET", "d/p%2Fq.txt"), raw("GET", "d/p/q.txt"), raw("DELETE", "d/p%2Fq.txt")
            if r.good:
                log.ok(g.good and h.good and g.body == h.body == b"slash\n" and d.good,
                       f"PUT takes %2F as a slash; GET with %2F {g.status}, GET with / {h.status}, DELETE {d.status}")
            else:
                log.ok(r.code == "environment_invalid" and not (g.good or h.good or d.good),
                       f"%2F: PUT {r}, GET {g.status}, DELETE {d.status}")
        elif text.startswith("'+' is a plus"):
            r, listed = raw("PUT", "d/raw+plus.txt", b"+"), run.tree(env)
            log.ok(r.good and "d/raw+plus.txt" in listed, f"PUT of a raw '+': {r}, listed {short(sorted(listed), 80)}")
        elif not text.startswith("names with control characters"):
            continue
        log.done.add(text)


def drive_paths(run):
    """Raw paths: refused everywhere, or the same plain file for every method."""
    log, base = run.log, {"keep.txt": b"keep\n", "a/b": b"ab\n"}
    state = {}

    def fresh():
        env = run.env()
        for p, data in base.items():
            run.put(env, p, data)
        state.update(env=env, snap=run.snapshot(env))

    def settle():
        """What changed in the source; a changed source is replaced by a fresh one."""
        try:
            now = run.snapshot(state["env"])
        except RuntimeError as e:
            fresh()
            return {"?": str(e)}
        if now == state["snap"]:
            return {}
        ch = {p: (state["snap"].get(p, "absent"), now.get(p, "absent")) for p in set(now) | set(state["snap"])
              if state["snap"].get(p, "absent") != now.get(p, "absent")}
        fresh()
        return ch

    def refused(r, method, empty):
        if r.code == "environment_invalid" and not r.good or (r.status == 404 and method != "PUT"):
            return True
        if r.status == 414 or (empty and r.status in (404, 405)):
            log.note(f"{method} answers {r.status} to " + ("an empty path" if empty else "a very long one"))
            return True
        return False
    fresh()
    for raw in json.loads(run.bytes(run.req["raw_from"])):
        tag, empty = f"path {short(raw, 30)!r}", raw in ("", "/")
        plain = urllib.parse.unquote_to_bytes(raw)
        try:
            name = plain.decode("utf-8")
        except UnicodeDecodeError:
            name = None
        segs = name.split("/") if name is not None else [".."]
        means = "/".join(s for s in segs if s not in ("", ".")) if ".." not in segs and not empty else None
        alias = means if means != name and means in ("a", "a/b") else None
        literal = name is not None and means == name and not re.search(r"[\\\0]", name)
        did = {}
        for method in run.req["methods"]:
            body = f"planted {raw[:20]}\n".encode() if method == "PUT" else None
            r = run.cl.request(method, run.req["path"].replace("{E}", state["env"]["E"]).replace("{raw}", raw), body,
                               "application/octet-stream" if body else None)
            did[method], ch = r.good, settle()
            if refused(r, method, empty):
                log.ok(not ch, f"{tag}: {method} refused, and the source changed: {short(ch)}")
                continue
            if not r.good:
                log.ok(False, f"{tag}: {method} {r}, expected environment_invalid" + ("" if method == "PUT" else " or 404"))
                log.ok(not ch, f"{tag}: {method} {r.status}, and the source changed: {short(ch)}")
            elif method == "GET":
                listing = empty and isinstance(r.json, dict) and "entries" in r.json
                if listing:
                    log.note("GET of an empty path answers with the file list")
                log.ok(listing or (alias == "a/b" and r.body == base["a/b"]), f"{tag}: GET 200 {short(r.body[:60])}")
            elif method == "PUT":
                files = {p for p, (o, n) in ch.items() if n is not None}
                log.ok((literal and files == {name}) or (alias == "a/b" and files == {"a/b"}),
                       f"{tag}: PUT {r.status} changed {short(sorted(ch))}")
            else:
                log.ok(alias and "keep.txt" not in ch and alias in ch, f"{tag}: DELETE {r.status} changed {short(sorted(ch))}")
        if alias == "a/b":
            log.ok(len(set(did.values())) == 1, f"{tag}: not the same meaning for all methods: {did}")
        if name is None or not run.req.get("note"):
            continue
        r = run.cl.js("POST", state["env"]["E"] + "/directories", {"path": name})
        ch = settle()
        if r.good:
            log.ok((literal and name in ch) or alias is not None and set(ch) <= {alias},
                   f"{tag}: POST directories {r.status} changed {short(sorted(ch))}")
        else:
            log.ok(r.code in ("environment_invalid", "environment_exists"), f"{tag}: POST directories {r}")
            log.ok(not ch, f"{tag}: POST directories refused, and the source changed: {short(ch)}")
    for text in run.expect.get("rules", []):
        if not text.startswith("no file outside the source root"):
            log.done.add(text)


def drive_bytes(run):
    env, log = run.env(), run.log
    for f in run.case["files"]:
        data, name = run.bytes(f["name"]), f["name"].split("-", 1)[1]
        want = run.expect["sha256"].get(name, f["sha256"])
        for n, ctype in enumerate(run.req.get("content_types") or [None]):
            path, tag = f"t{n}/{name}", f"{name} as {ctype}"
            r = run.cl.request("PUT", f"{env['E']}/files/{path}", data, ctype)
            if not log.ok(r.status in (200, 201, 204), f"{tag}: PUT {r}"):
                continue
            g = run.get(env, path)
            log.ok(g.status == 200 and sha(g.body) == want, f"{tag}: GET {g.status}, {len(g.body)} bytes, expected {len(data)}"
                   + (", other bytes" if len(g.body) == len(data) else ""))
            log.ok(g.header("Content-Encoding") is None, f"{tag}: GET has Content-Encoding {g.header('Content-Encoding')}")
    sizes = run.tree(env)
    for f in run.case["files"]:
        for n in range(len(run.req.get("content_types") or [None])):
            p = f"t{n}/" + f["name"].split("-", 1)[1]
            log.ok(sizes.get(p, -1) == f["bytes"], f"{p} is listed with {sizes.get(p)} bytes, expected {f['bytes']}")


def drive_limits(run):
    """The steps whose bodies are stated by the server's own limit, then the plain ones."""
    env, log, cap = run.env(), run.log, run.opts.max_upload << 20
    run.put(env, "big", b"old\n")
    r, sent = run.cl.zeros(env["E"] + "/files/big", 1 << 40, declared=1 << 40, cap=cap)
    d = r.error.get("detail")
    limit = d.get("max_bytes") if isinstance(d, dict) else None
    log.ok(r.code == "file_too_large", f"PUT with Content-Length 1 TiB: {r} after {sent} bytes; expected file_too_large")
    early = sent < min(cap, limit or cap)
    rest = []
    for s in run.expect["steps"]:
        body, name = str(s.get("body", "")), f"{s['method']} {s['path']} ({s.get('body', '')})"
        if "max_bytes" not in body and not body.startswith("the same, chunked"):
            rest.append(s)
            continue
        if not isinstance(limit, int):
            log.ok(False, f"{name}: not driven, the limit is unknown (no detail.max_bytes)")
            continue
        exact = body.startswith("exactly")
        if exact and limit > cap:
            log.note(f"not driven: a body of exactly max_bytes = {limit} (--max-upload {run.opts.max_upload} MiB)")
            continue
        r, sent = run.cl.zeros(s["path"].replace("{E}", env["E"]), limit + (0 if exact else 1), "chunked" in body,
                               cap=None if exact or limit <= cap else cap)
        if "chunked" in body and limit > cap and r.code not in s["code"]:
            log.note(f"not driven: a chunked body above max_bytes = {limit} (--max-upload {run.opts.max_upload} MiB)")
            continue
        check_step(s, r, name, log)
        if exact and r.good:
            log.ok(run.tree(env).get("edge") == limit, f"{name}: listed with {run.tree(env).get('edge')} bytes")
            run.cl.request("DELETE", s["path"].replace("{E}", env["E"]))
    g = run.get(env, "big")
    log.ok(g.body == b"old\n", f"after the refusals the old file is {g.status}, {len(g.body)} bytes")
    log.ok(early, f"the refusal came after {sent} bytes")
    run_steps(run, env, rest)
    for text in run.expect.get("rules", []):
        if text.startswith(("a refused upload leaves", "the refusal comes before")):
            log.done.add(text)


def drive_headers(run):
    env, log, exp = run.env(), run.log, run.expect["headers_on_get"]
    r = run.import_file(env, run.case["file"])
    if not log.ok(r.good, f"import: {r}"):
        return
    types = {"html": "text/html", "htm": "text/html", "svg": "image/svg+xml", "txt": "text/plain", "": "application/octet-stream"}
    for p, size in run.tree(env).items():
        if size is None:
            continue
        g = run.get(env, p)
        log.ok(g.status == 200, f"{p!r}: GET {g}")
        for k, v in exp.items():
            if k == "any_of":
                have = [o for o in v if o.split(": ")[1] in str(g.header(o.split(": ")[0]) or "").lower()]
                log.ok(have, f"{p!r}: none of {' | '.join(v)}")
            else:
                log.ok(str(g.header(k) or "").lower() == v, f"{p!r}: {k} is {g.header(k)!r}, expected {v!r}")
        ext = p.rsplit("/", 1)[-1].rsplit(".", 1)[-1].lower() if "." in p.rsplit("/", 1)[-1] else ""
        if ext in types:
            have = str(g.header("Content-Type") or "").split(";")[0].strip().lower()
            log.ok(have == types[ext], f"{p!r}: Content-Type {have!r}, expected {types[ext]!r}")
    for text in run.expect.get("rules", []):
        if text.startswith("content types:"):
            log.done.add(text)


# ---------------------------------------------------------------- builds with a course of their own
def drive_order(run):
    """Several imports and builds in one environment; what stays active after a failure."""
    env, log, exp = prepare(run), run.log, run.expect
    after = exp["after_each_failure"]
    for f in run.case["files"]:
        seen = Seen(run, env, f["name"])
        seen.reply = run.import_file(env, f["name"], "replace=true")
        seen.listed()
        one = Log()
        guarded(one, judge_build, exp[f["name"]], seen)
        if (exp[f["name"]]["build"])["status"] == "failed":
            e = run.get_env(env)
            for key, want in after.items():
                if key.startswith("environment."):
                    have = e.get(key.split(".", 1)[1])
                    one.ok(have == want, f"{key} is {have!r}, expected {want!r}")
            later = Seen(run, env)
            guarded(one, judge_sessions, {"session": after.get("session", [])}, later)
        one.failures = [f"{f['name']}: {x}" for x in one.failures]
        log.take(one)
    run_steps(run, env, exp.get("steps", []))


def drive_hang(run):
    """A build that does not end by itself: busy meanwhile, ended by the server's limit."""
    env, log, exp = prepare(run), run.log, run.expect
    seen = Seen(run, env, run.case["file"])
    seen.reply = run.import_file(env, run.case["file"])
    if not log.ok(seen.reply.good, f"import: {seen.reply}"):
        return
    seen.listed()
    t0, j = time.monotonic(), run.build(env, wait=False)
    log.ok(env["post_seconds"] < 10, f"POST build took {env['post_seconds']:.0f} s")
    time.sleep(1)
    for s in exp.get("steps", []):
        r = run.cl.request(s["method"], s["path"].replace("{E}", env["E"]))
        check_step(s, r, f"{s['method']} {s['path']} while {s.get('while')}", log)
    r = run.cl.js("POST", env["E"] + "/build")
    log.ok(r.code == "environment_busy", f"POST build during the build: {r}, expected environment_busy")
    most = run.opts.build_limit + 30 if run.opts.build_limit else min(run.opts.timeout - 30, 240)
    rec = run.wait_build(env, j["version"], t0, max(5, most))
    if rec is None:
        text = f"the build had not ended after {time.monotonic() - t0:.0f} s"
        if run.opts.build_limit:
            log.ok(False, text)
        else:
            log.block(text + "; say the server's limit with --build-limit SECONDS (and --timeout above it)")
        return
    seen._record, seen.source_after_build = rec, seen.after
    guarded(log, judge_build, exp, seen)
    for text in exp.get("rules", []):
        if text.startswith("the time limit is documented"):
            log.ok(re.search(r"\d", rec["error_text"]), f"the error does not state the limit: {short(rec['error_text'])!r}")
        elif text.startswith("afterwards a new build starts"):
            run.put(env, "setup.sh", b"true\n")
            again = run.build(env)
            log.ok(again.get("status") == "ready", f"the next build: {again.get('status')} {short(again['error_text'])}")
        elif not text.startswith("POST build during it"):
            continue
        log.done.add(text)


def drive_restart(run):
    """The server is stopped hard in the middle of a build and started again by --restart-cmd."""
    if not run.opts.restart_cmd:
        raise Skip("the server must be killed and started during the case: give --restart-cmd CMD")
    env, log, exp = prepare(run), run.log, run.expect
    run.put(env, "first.txt", b"1\n")
    first = run.build(env)
    log.ok(first.get("status") == "ready", f"first build {first.get('status')}")
    seen = Seen(run, env, run.case["file"])
    seen.reply = run.import_file(env, run.case["file"])
    seen.listed()
    j = run.build(env, wait=False)
    time.sleep(5)
    p = subprocess.run(run.opts.restart_cmd, shell=True, capture_output=True, timeout=120)
    log.ok(p.returncode == 0, f"--restart-cmd: exit {p.returncode} {short(p.stderr.decode('utf-8', 'replace'))}")
    t0 = time.monotonic()
    while run.cl.js("GET", env["E"], timeout=5).status == 0 and time.monotonic() - t0 < 60:
        time.sleep(0.5)
    up = time.monotonic()
    rec = run.wait_build(env, j["version"], up, exp.get("within_seconds", 30))
    if log.ok(rec is not None, f"the record still says building {exp.get('within_seconds', 30)} s after the start"):
        seen._record, seen.source_after_build = rec, seen.after
        guarded(log, judge_build, exp, seen)
        if exp.get("processes_gone"):
            gone_check(run, exp["processes_gone"])
        r = run.cl.js("POST", f"{env['E']}/versions/{j['version']}/activate")
        log.ok(r.code == "environment_not_ready", f"activate of the half-made version: {r}")
        e = run.get_env(env)
        log.ok(e.get("version") == first.get("version"), f"the active version is {e.get('version')}, was {first.get('version')}")
        run.put(env, "setup.sh", b"true\n")
        again = run.build(env)
        log.ok(again.get("status") == "ready" and again.get("version") == j["version"] + 1,
               f"the next build: number {again.get('version')}, {again.get('status')} {short(again['error_text'])}")
        for text in exp.get("rules", []):
            if text.startswith(("the environment is not busy", "the version that was active")):
                log.done.add(text)


def drive_foreign(run):
    """Ids of --key used with --other-key: the answers must be those for made-up ids."""
    if not run.opts.other_key:
        raise Skip("needs a second principal: give --other-key KEY")
    log, cl, other = run.log, run.cl, run.opts.other_key
    env = run.env()
    run.put(env, "a.txt", b"a\n")
    run.build(env)
    t = run.task("echo x > out.txt; echo hi", env)
    h = run.shell_harness(env)
    fake_e, fake = "henv_" + secrets.token_hex(16), secrets.token_hex(12)
    pairs = []
    for m, p, b in (("GET", "", None), ("PUT", "", {"name": "taken over"}), ("GET", "/files", None),
                    ("GET", "/files/a.txt", None), ("PUT", "/files/a.txt", "raw"), ("DELETE", "/files/a.txt", None),
                    ("POST", "/directories", {"path": "d"}), ("POST", "/import", "raw"), ("POST", "/build", None),
                    ("GET", "/builds/1", None), ("GET", "/versions", None), ("POST", "/versions/1/activate", None),
                    ("GET", "/harnesses", None), ("DELETE", "", None)):
        pairs.append((m, env["E"] + p, "/v1/environments/" + fake_e + p, b))
    pairs += [(m, f"/v1/harnesses/{h}{p}", f"/v1/harnesses/chrn_{fake}{p}", b) for m, p, b in (
        ("GET", "", None), ("GET", "/models", None), ("PUT", "", {"name": "x", "base": run.opts.base}), ("DELETE", "", None))]
    if t["session"]:
        pairs += [(m, f"/v1/sessions/{t['session']}{p}", f"/v1/sessions/hsess{fake}{p}", None) for m, p in (
            ("GET", ""), ("GET", "/turns"), ("GET", "/files"), ("GET", "/files/archive"), ("POST", "/cancel"), ("DELETE", ""))]
        pairs += [(m, f"/v1/responses/{t['id']}{p}", f"/v1/responses/resp_{fake}{p}", None) for m, p in (
            ("GET", ""), ("GET", "/input_items"), ("POST", "/cancel"), ("DELETE", ""))]
    else:
        log.ok(False, task_said(t))

    def ask(m, p, b):
        if b == "raw":
            return cl.request(m, p, b"x", "application/octet-stream", key=other)
        return cl.js(m, p, b, key=other)

    def plain(r, real, made):
        return r.body.decode("utf-8", "replace").replace(real.split("/")[3], "ID").replace(made.split("/")[3], "ID")
    for m, real, made, b in pairs:
        a, z = ask(m, real, b), ask(m, made, b)
        name = f"{m} {made.replace(fake_e, '{id}').replace(fake, '{id}')}"
        log.ok(a.status == 404, f"{name}: a foreign id gives {a}")
        log.ok((a.status, a.code) == (z.status, z.code) and plain(a, real, made) == plain(z, real, made),
               f"{name}: foreign {a}, made up {z}")
    for body in ({"name": "y", "base": run.opts.base, "environment": env["id"]},):
        r = cl.js("POST", "/v1/harnesses", body, key=other)
        log.ok(r.code == "environment_not_found", f"harness that names a foreign environment: {r}")
        if r.good:
            cl.js("DELETE", "/v1/harnesses/" + r.json["id"], key=other)
    r = cl.js("POST", "/v1/responses", {"input": "true", "metadata": {"harness_id": h}}, key=other)
    log.ok(r.code == "harness_not_found", f"task on a foreign harness: {r}")
    r = cl.js("POST", "/v1/responses", {"input": "true", "previous_response_id": t["id"]}, key=other)
    log.ok(r.code == "response_not_found", f"task on a foreign response: {r}")
    for p in ("/v1/environments", "/v1/harnesses", "/v1/sessions"):
        text = cl.js("GET", p, key=other).body.decode("utf-8", "replace")
        log.ok(not any(x and x in text for x in (env["id"], h, t["session"])), f"GET {p} shows foreign objects")
    log.ok(run.get(env, "a.txt").body == b"a\n", "the owner's file changed")


# ---------------------------------------------------------------- which driver
def drive(run):
    c, exp, req, use = run.case, run.expect, run.req, run.case["use"]
    if c["kind"] == "auth" and c["use"] == "procedure" and "another project" in c["title"]:
        return drive_foreign(run)
    if use.startswith("procedure"):
        raise Skip("a procedure, not driven by UHP routes")
    if use.startswith("skill-upload"):
        raise Skip("skill archives are uploaded by routes that are not UHP's")
    if "after_each_failure" in exp:
        return drive_order(run)
    if "within_seconds" in exp:
        return drive_restart(run)
    if any("while" in s for s in exp.get("steps", [])):
        return drive_hang(run)
    if "memory limit" in use and not run.opts.memory:
        raise Skip("takes all memory it can get: give --memory when builds on the server have a memory limit")
    if "filesystem" in use:
        raise Skip("needs a version store on a small filesystem: " + use)
    if use == "session" or use.startswith("session "):
        return drive_session(run)
    if use == "exec":
        if not any("exec" in e for e in [exp] + [v for v in exp.values() if isinstance(v, dict)]):
            raise Skip("no expectation that a task of the base can show; by hand: " + short("; ".join(exp.get("rules", [])), 80))
        return drive_exec(run)
    if "refs" in exp:
        return drive_refs(run)
    if use == "http":
        if "bodies" in req:
            return drive_bodies(run)
        if "for_each_name" in exp:
            return drive_names(run)
        if "raw_from" in req:
            return drive_paths(run)
        if "for_each_file" in exp:
            return drive_bytes(run)
        if any("max_bytes" in str(s.get("body")) for s in exp.get("steps", [])):
            return drive_limits(run)
        if exp.get("steps"):
            return run_steps(run, prepare(run), ([exp["after"]] if "after" in exp else []) + exp["steps"])
        raise Skip("no driver for these words: " + short(req.get("note") or "", 80))
    if "headers_on_get" in exp:
        return drive_headers(run)
    if use.startswith(("import", "git-import")):
        return drive_import(run)
    raise Skip(f"no driver for use {use!r}")


def all_rules(x):
    if isinstance(x, dict):
        for k, v in x.items():
            if k == "rules" and isinstance(v, list):
                yield from (t for t in v if isinstance(t, str))
            else:
                yield from all_rules(v)
    elif isinstance(x, list):
        for v in x:
            yield from all_rules(v)


def run_case(cl, opts, case, folder):
    run = Run(cl, opts, case, folder)
    t0 = time.monotonic()
    cl.deadline = t0 + opts.timeout
    log, why, memory = run.log, None, Memory(opts.server_pid) if opts.server_pid else None
    for f in case.get("files", []):
        with contextlib.suppress(OSError):
            if sha(run.bytes(f["name"])) != f["sha256"]:
                log.ok(False, f"{f['name']} is not the file of the manifest")
    try:
        if not log.failures:
            drive(run)
    except Skip as e:
        why = str(e)
    except OutOfTime:
        log.ok(False, f"not over after {opts.timeout} s")
    except RuntimeError as e:
        log.ok(False, str(e))
    except FileNotFoundError as e:
        log.ok(False, f"missing: {e.filename}")
    except Exception as e:                              # a fault of this program is never a pass
        log.ok(False, f"runner: {type(e).__name__}: {short(str(e))} (line {last_line(e)})")
    rules = list(dict.fromkeys(all_rules(case["expect"])))
    if memory:
        memory.judge(run, rules)
    seconds = time.monotonic() - t0
    left = run.clean()
    cl.deadline = None
    unchecked = [r for r in rules if r not in log.done]
    if log.failures:
        verdict, reason = "FAIL", log.failures[0] + (f" (and {len(log.failures) - 1} more)" if len(log.failures) > 1 else "")
    elif why is not None:
        verdict, reason = "SKIP", why
    elif log.blocked:
        verdict, reason = "SKIP", f"{log.checks} checks hold, but " + "; ".join(log.blocked)
    elif not log.checks:
        verdict, reason = "SKIP", "nothing was checked"
    else:
        verdict, reason = "PASS", f"{log.checks} checks"
        if log.outcomes:
            reason += "; outcome " + ", ".join(dict.fromkeys(log.outcomes))
        if log.notes:
            reason += "; note: " + "; ".join(short(n, 140) for n in log.notes[:3])
        if unchecked:
            reason += f"; {len(unchecked)} of {len(rules)} rules not checked here"
    if left:
        reason += "; left behind: " + ", ".join(left)
    return {"id": case["id"], "kind": case["kind"], "priority": case.get("priority"), "title": case["title"],
            "verdict": verdict, "reason": reason, "seconds": round(seconds, 2), "checks": log.checks,
            "failures": log.failures, "blocked": log.blocked, "notes": log.notes, "outcomes": log.outcomes,
            "unchecked": unchecked if verdict != "SKIP" else rules, "left_behind": left}


def last_line(e):
    tb, n = e.__traceback__, 0
    while tb:
        n, tb = tb.tb_lineno, tb.tb_next
    return n


def words(text):
    return [w.strip() for w in (text or "").split(",") if w.strip()]


def main():
    ap = argparse.ArgumentParser(description="Runs the cases of this folder against a UHP server.")
    ap.add_argument("--base-url", default="http://127.0.0.1:7077")
    ap.add_argument("--key", default=os.environ.get("UHP_KEY"), help="bearer token (or UHP_KEY in the environment)")
    ap.add_argument("--cases", default=os.path.dirname(os.path.abspath(__file__)), help="folder with manifest.json")
    ap.add_argument("--only", default="", help="case ids, comma separated")
    ap.add_argument("--kind", default="", help="kinds, comma separated: archive, git, build, mount, exec, files, ...")
    ap.add_argument("--json", help="write a report here")
    ap.add_argument("--timeout", type=int, default=300, help="seconds for one case (300)")
    ap.add_argument("--base", default="shell", help="the harness base that runs its input as a bash script")
    ap.add_argument("--decided", action="store_true", help="of several accepted outcomes allow only README.md's choice")
    ap.add_argument("--no-version", action="store_true", help="imports: look at the file routes only, build nothing")
    ap.add_argument("--quick", action="store_true", help="fewer repeats and shorter waits (exec)")
    ap.add_argument("--keep", action="store_true", help="do not delete what the cases made")
    ap.add_argument("--other-key", help="token of a second principal (kind auth)")
    ap.add_argument("--build-limit", type=int, help="the server's time limit for a build, in seconds")
    ap.add_argument("--memory", action="store_true", help="run the case that takes all memory it can get")
    ap.add_argument("--max-upload", type=int, default=256, help="MiB at most for one upload (256)")
    ap.add_argument("--restart-cmd", help="shell command that kills the server hard and starts it again")
    ap.add_argument("--search", action="append", default=[], help="server folder to search for planted files")
    ap.add_argument("--server-pid", help="process whose memory is watched")
    ap.add_argument("--server-log", help="log file to search for secrets")
    ap.add_argument("--git-bind", default="127.0.0.1", help="address the local git server listens on")
    ap.add_argument("--git-host", help="the same, as the server under test reaches it")
    opts = ap.parse_args()
    opts.git_host = opts.git_host or opts.git_bind
    if opts.build_limit:
        opts.timeout = max(opts.timeout, opts.build_limit + 90)
    with open(os.path.join(opts.cases, "manifest.json"), encoding="utf-8") as f:
        cases = json.load(f)["cases"]
    only, kinds = set(words(opts.only)), set(words(opts.kind))
    unknown = (only - {c["id"] for c in cases}) | (kinds - {c["kind"] for c in cases})
    if unknown:
        print(f"no such case or kind: {', '.join(sorted(unknown))}", file=sys.stderr)
        return 2
    cases = [c for c in cases if (not only or c["id"] in only) and (not kinds or c["kind"] in kinds)]
    cl = Client(opts.base_url, opts.key)
    d = cl.request("GET", "/v1/uhp", key="", timeout=10)
    caps = (d.json or {}).get("capabilities") if isinstance(d.json, dict) else None
    if not isinstance(caps, dict) or not caps.get("environments"):
        print(f"GET /v1/uhp: {d}; " + ("the capability 'environments' is not offered" if caps else "no discovery document"),
              file=sys.stderr)
        return 2
    r = cl.js("GET", "/v1/environments", timeout=10)
    if r.status == 401:
        print(f"GET /v1/environments: {r}; give --key KEY", file=sys.stderr)
        return 2
    results, count = [], {"PASS": 0, "FAIL": 0, "SKIP": 0}
    try:
        for case in cases:
            res = run_case(cl, opts, case, opts.cases)
            results.append(res)
            count[res["verdict"]] += 1
            print(f"{res['verdict']} {res['id']} {res['title']}: {one_line(res['reason'])}", flush=True)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
    if opts.json:
        with open(opts.json, "w", encoding="utf-8") as f:
            json.dump({"base_url": opts.base_url, "discovery": d.json, "passed": count["PASS"], "failed": count["FAIL"],
                       "skipped": count["SKIP"], "complete": len(results) == len(cases), "results": results}, f,
                      indent=1, ensure_ascii=True)
            f.write("\n")
    print(f"{count['PASS']} passed, {count['FAIL']} failed, {count['SKIP']} skipped")
    return 1 if count["FAIL"] or len(results) < len(cases) else 0


def one_line(text):
    return "".join(ch if ch.isprintable() else f"\\x{ord(ch):02x}" for ch in text)[:600]


if __name__ == "__main__":
    sys.exit(main())
