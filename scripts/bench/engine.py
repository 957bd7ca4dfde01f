"""A container engine, where one answers: none is started for this."""

import io
import shutil
import subprocess
import tarfile

NAME = "stead-bench:busybox"


class Image:
    """An image of one static program, as small as one can be, until the `with` block ends. `name` is None without an engine, and
    `note` says why."""

    def __init__(self, bench):
        self.docker = bench.binaries.docker
        self.name = None
        self.note = "no engine: docker is not installed"

    def __enter__(self):
        if not self.docker:
            return self
        version = self._docker("version", "--format", "{{.Server.Version}}")
        if version.returncode != 0:
            self.note = "no engine answers"
            return self
        try:
            program = open(shutil.which("busybox") or "/bin/busybox", "rb").read()
        except OSError as error:
            self.note = f"no image: {error}"
            return self
        made = self._docker("import", "-", NAME, input=self._tar(program))
        if made.returncode != 0:
            self.note = "no image: " + made.stderr.decode(errors="replace").strip()
            return self
        self.name = NAME
        self.note = f"Docker {version.stdout.decode().strip()}, no network, an image of one static program"
        return self

    def __exit__(self, *_):
        if self.name:
            self._docker("rmi", NAME)

    def _docker(self, *arguments, **options):
        return subprocess.run([self.docker, *arguments], capture_output=True, timeout=60, **options)

    @staticmethod
    def _tar(program):
        target = io.BytesIO()
        with tarfile.open(fileobj=target, mode="w") as tar:
            member = tarfile.TarInfo("bin/busybox")
            member.size, member.mode = len(program), 0o755
            tar.addfile(member, io.BytesIO(program))
            link = tarfile.TarInfo("bin/sh")
            link.type, link.linkname = tarfile.SYMTYPE, "busybox"
            tar.addfile(link)
        return target.getvalue()
