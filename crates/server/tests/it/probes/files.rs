//! The sealed version, the host's files, and what can be made in the working directory.

use super::{EACCES, ENOENT, EPERM, EROFS, NONE, Probe, Reaches, SEALED, Succeeds, SucceedsOnHost, Without, probe};

const ACROSS: &[&str] = &["EXDEV"];
const ANOTHER_MOUNT: &[&str] = &["EXDEV", "EROFS"];

pub(super) fn probes() -> Vec<Probe> {
    let mut probes = layer();
    probes.extend(host());
    probes.extend(working_directory());
    probes
}

/// Writing a version, by every way there is to a file.
fn layer() -> Vec<Probe> {
    let reopened = "d = os.open(LAYER + '/own', os.O_RDONLY)\nopened(f'/proc/self/fd/{d}', os.O_WRONLY)";
    let by_empty_path = "d = os.open(LAYER + '/own', os.O_RDONLY)\n\
        try: call('linkat', d, text(''), -100, text(WORK + '/hard'), 0x1000)\n\
        except FileNotFoundError: fail(errno.EPERM)\n\
        os.unlink(WORK + '/hard')";
    let by_descriptor = "d = os.open(LAYER + '/own', os.O_RDONLY)\n\
        call('linkat', -100, text(f'/proc/self/fd/{d}'), -100, text(WORK + '/hard'), 0x400)\nos.unlink(WORK + '/hard')";
    let temporary = "d = os.open(WORK, os.O_TMPFILE | os.O_WRONLY)\n\
        call('linkat', -100, text(f'/proc/self/fd/{d}'), -100, text(LAYER + '/planted'), 0x400)\nos.unlink(LAYER + '/planted')";
    let unchanged_by_memory = "f = os.open(LAYER + '/own', os.O_RDONLY)\n\
        m = mmap.mmap(f, 0, mmap.MAP_PRIVATE, mmap.PROT_READ)\n\
        b = ctypes.create_string_buffer(8)\n\
        at = [l for l in open('/proc/self/maps') if l.endswith('/own\\n')][0].split('-')[0]\n\
        w = os.open('/proc/self/mem', os.O_RDWR)\nos.pwrite(w, b'changed!', int(at, 16))\n\
        seen = 'changed' if read(LAYER + '/own').startswith(b'changed!') else 'unchanged'";
    let unchanged_by_pipe = "f = os.open(LAYER + '/own', os.O_RDONLY)\nr, w = os.pipe()\n\
        os.write(w, b'x' * 65536); os.read(r, 65536)\nos.splice(f, w, 1, offset_src=0)\nos.write(w, b'changed!')\n\
        seen = 'changed' if b'changed!' in read(LAYER + '/own') else 'unchanged'";
    let immutable =
        "d = os.open(LAYER + '/own', os.O_RDONLY)\nfcntl.ioctl(d, 0x40086602, fcntl.ioctl(d, 0x80086601, bytes(8)))";
    const UNCHANGED: &[&str] = &["unchanged"];
    const HOLES: &str = "a hole of old kernels, which this one must not have";
    vec![
        probe("write a layer", "opened(LAYER + '/own', os.O_WRONLY)", SEALED, Succeeds),
        probe(
            "write a layer by another path",
            "opened('/proc/self/root' + LAYER + '/own', os.O_WRONLY | os.O_APPEND)",
            SEALED,
            Succeeds,
        ),
        probe("write a layer by reopening what is read", reopened, SEALED, Succeeds),
        probe(
            "write a layer by the directory of its parent",
            "opened(LAYER + '/../' + os.path.basename(LAYER) + '/own', os.O_RDWR)",
            SEALED,
            Succeeds,
        ),
        probe("truncate a layer's file", "os.truncate(LAYER + '/scratch', 0)", SEALED, Succeeds),
        probe("chmod on a layer", "os.chmod(LAYER + '/own', 0o644)", EROFS, Succeeds),
        probe("chown on a layer", "os.chown(LAYER + '/own', os.getuid(), os.getgid())", EROFS, Succeeds),
        probe("set a layer's times", "os.utime(LAYER + '/own')", EROFS, Succeeds),
        probe("set an attribute in a layer", "os.setxattr(LAYER + '/own', 'user.x', b'1')", EROFS, Succeeds),
        probe("make a layer's file immutable", immutable, DENIED_OR_SEALED, Succeeds),
        probe(
            "make a file in a layer",
            "opened(LAYER + '/made', os.O_WRONLY | os.O_CREAT)\nos.unlink(LAYER + '/made')",
            EROFS,
            Succeeds,
        ),
        probe("make a directory in a layer", "os.mkdir(LAYER + '/made'); os.rmdir(LAYER + '/made')", EROFS, Succeeds),
        probe(
            "make a link in a layer",
            "os.symlink('/', LAYER + '/made'); os.unlink(LAYER + '/made')",
            EROFS,
            Succeeds,
        ),
        probe("make a fifo in a layer", "os.mkfifo(LAYER + '/made'); os.unlink(LAYER + '/made')", EROFS, Succeeds),
        probe(
            "hide a layer's file by a whiteout",
            "os.mknod(LAYER + '/made', stat.S_IFCHR, 0); os.unlink(LAYER + '/made')",
            EROFS,
            Succeeds,
        ),
        probe(
            "remove a layer's file",
            "os.link(LAYER + '/own', LAYER + '/second') if CONTROL else None\nos.unlink(LAYER + ('/second' if CONTROL else '/own'))",
            EROFS,
            Succeeds,
        ),
        probe(
            "rename a layer's file",
            "os.rename(LAYER + '/own', LAYER + '/other'); os.rename(LAYER + '/other', LAYER + '/own')",
            EROFS,
            Succeeds,
        ),
        probe(
            "exchange a layer's file",
            "open(WORK + '/e', 'w').close()\ncall('renameat2', -100, text(WORK + '/e'), -100, text(LAYER + '/scratch'), 2)",
            ANOTHER_MOUNT,
            Succeeds,
        ),
        probe(
            "move a file into a layer",
            "open(WORK + '/m', 'w').close()\nos.rename(WORK + '/m', LAYER + '/made'); os.unlink(LAYER + '/made')",
            ANOTHER_MOUNT,
            Succeeds,
        ),
        probe(
            "hardlink a layer file",
            "os.link(LAYER + '/own', WORK + '/hard'); os.unlink(WORK + '/hard')",
            ACROSS,
            Succeeds,
        ),
        probe("hardlink a layer file by its descriptor", by_descriptor, ACROSS, Succeeds),
        probe("hardlink a layer file without a path", by_empty_path, &["EPERM", "EXDEV"], Succeeds),
        probe("link an unnamed file into a layer", temporary, ANOTHER_MOUNT, Succeeds),
        probe("unnamed file in a layer", "os.close(os.open(LAYER, os.O_TMPFILE | os.O_WRONLY))", EROFS, Succeeds),
        probe(
            "map a layer's file for writing",
            "d = os.open(LAYER + '/own', os.O_RDONLY)\nmmap.mmap(d, 0, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE)",
            EACCES,
            Without("a descriptor for reading maps no writing anywhere"),
        ),
        probe("write a layer through private memory", unchanged_by_memory, UNCHANGED, Without(HOLES)),
        probe("write a layer through a pipe's page", unchanged_by_pipe, UNCHANGED, Without(HOLES)),
        probe(
            "replace a layer's directory",
            "os.rename(LAYER + '/d', LAYER + '/e'); os.rename(LAYER + '/e', LAYER + '/d')",
            EROFS,
            Succeeds,
        ),
        probe(
            "remove the layer itself",
            "os.rmdir(LAYER)",
            &["EBUSY", "EROFS", "EACCES"],
            Without("its directory is the fixture of the others"),
        ),
        probe("a version beside mine", "os.mkdir('/env/other')", SEALED, Without("the host has no /env")),
        probe(
            "list the versions beside mine",
            "names = os.listdir('/env')\nseen = 'none' if names == [os.path.basename(LAYER)] else names",
            NONE,
            Without("the host has no /env"),
        ),
    ]
}

const DENIED_OR_SEALED: &[&str] = &["EPERM", "EACCES", "EROFS"];

/// The host's own files.
fn host() -> Vec<Probe> {
    vec![
        probe("a host file", "read(HOST_FILE)", ENOENT, SucceedsOnHost),
        probe(
            "symlink out of the workspace",
            "os.symlink(HOST_FILE, WORK + '/l')\ntry: read(WORK + '/l')\nfinally: os.unlink(WORK + '/l')",
            ENOENT,
            SucceedsOnHost,
        ),
        probe(
            "symlink to the root",
            "os.symlink('/', WORK + '/r')\ntry: read(WORK + '/r/etc/shadow')\nfinally: os.unlink(WORK + '/r')",
            ENOENT,
            SucceedsOnHost,
        ),
        probe("climb out", "read('/../../../../../../etc/shadow')", ENOENT, SucceedsOnHost),
        probe("climb out of the workspace", "os.chdir(WORK)\nread('../' * 40 + 'etc/shadow')", ENOENT, SucceedsOnHost),
        probe(
            "climb out by a descriptor",
            "d = os.open('/', os.O_PATH)\nos.open('../../etc/shadow', os.O_RDONLY, dir_fd=d)",
            ENOENT,
            SucceedsOnHost,
        ),
        probe("the root of process 1", "os.listdir('/proc/1/root')", EACCES, Succeeds),
        probe("the directory of process 1", "os.listdir('/proc/1/cwd')", EACCES, Succeeds),
        probe("another process's root on the host", "os.listdir(f'/proc/{HOST_PID}/root/')", ENOENT, SucceedsOnHost),
        probe("other session's files", "os.listdir(f'/proc/{OTHER_PID}/root/workspace')", ENOENT, SucceedsOnHost),
        probe("the server's data", "os.listdir(DATA)", ENOENT, SucceedsOnHost),
        probe("the server's key", "read(DATA + '/admin.key')", ENOENT, SucceedsOnHost),
        probe("root's home", "os.listdir('/root')", ENOENT, SucceedsOnHost),
        probe(
            "the old root below the new one",
            "os.chdir('/')\nos.listdir('..') == os.listdir('/') or fail(0)\nread('/.old/etc/shadow')",
            ENOENT,
            Without("a name that only a careless pivot leaves"),
        ),
        probe(
            "replace a program",
            "opened('/usr/bin/env', os.O_WRONLY)",
            &["EROFS", "EACCES", "ETXTBSY"],
            Without("the host's own program"),
        ),
        probe("add a program", "open('/usr/bin/probe', 'x')", SEALED, Without("the host's own directory")),
        probe(
            "preload into every program",
            "open('/etc/ld.so.preload', 'x')",
            SEALED,
            Without("the host's own directory"),
        ),
        probe("replace the loader's cache", "opened('/etc/ld.so.cache', os.O_WRONLY)", SEALED, SucceedsOnHost),
        probe("change certificates", "open('/etc/ssl/certs/probe', 'x')", SEALED, Without("the host's own directory")),
        probe("change the users", "opened('/etc/passwd', os.O_WRONLY)", SEALED, SucceedsOnHost),
        probe("make something in the root", "os.mkdir('/probe'); os.rmdir('/probe')", SEALED, SucceedsOnHost),
        probe(
            "make something beside the proxy's socket",
            "open('/run/probe', 'x')",
            SEALED,
            Without("the host's own directory"),
        ),
        probe(
            "change the tools",
            "open('/opt/stead/probe', 'x')",
            &["EROFS", "EACCES", "ENOENT"],
            Without("the host has no such directory"),
        ),
        probe("the program of process 1", "opened('/proc/1/exe')", EACCES, Succeeds),
        probe("write the program of process 1", "opened('/proc/1/exe', os.O_WRONLY)", EACCES, Reaches),
        probe(
            "descriptors that were left open",
            "own = os.open('/', os.O_PATH)\nhere = [n for n in map(int, os.listdir('/proc/self/fd')) if n > 2 and n < own and not os.readlink(f'/proc/self/fd/{n}').startswith('pipe:')]\nseen = here and [os.readlink(f'/proc/self/fd/{n}') for n in here] or 'none'",
            NONE,
            Without("looks at what there is"),
        ),
        probe(
            "secrets in the environment",
            "words = ('SECRET', 'TOKEN', 'API_KEY', 'PASSWORD', 'STEAD_')\nseen = [n for n in os.environ if any(w in n.upper() for w in words)] or 'none'",
            NONE,
            Without("looks at what there is"),
        ),
    ]
}

/// Files with powers of their own.
fn working_directory() -> Vec<Probe> {
    const NO_GAIN: &[&str] = &["no gain"];
    let gain = |program: &str| {
        format!(
            "if CONTROL: unprivileged()\nmine = os.geteuid()\n\
             got = int(subprocess.run([{program}, '-u'], capture_output=True, text=True).stdout)\n\
             seen = 'OK' if got != mine else 'no gain'"
        )
    };
    let copied = "shutil.copy('/usr/bin/id', WORK + '/copy')\nos.chmod(WORK + '/copy', 0o4755)\n".to_owned();
    vec![
        probe("setuid program that I copied", copied + &gain("WORK + '/copy'"), NO_GAIN, Succeeds),
        probe("setuid program of another user in the workspace", gain("SETUID"), NO_GAIN, Succeeds),
        probe(
            "setuid program of the system",
            "if CONTROL: unprivileged()\nseen = 'OK' if subprocess.run(['su', '-c', 'true'], stdin=subprocess.DEVNULL, capture_output=True).returncode == 0 else 'no gain'",
            NO_GAIN,
            Without("asks for a password"),
        ),
        probe(
            "a mount that honours setuid",
            "seen = [l.split()[4] for l in open('/proc/self/mountinfo') if 'nosuid' not in l.split()[5].split(',')] or 'none'",
            NONE,
            Without("looks at what there is"),
        ),
        probe(
            "a mount that honours devices",
            "seen = [l.split()[4] for l in open('/proc/self/mountinfo') if 'nodev' not in l.split()[5].split(',') and not l.split()[4].startswith('/dev/')] or 'none'",
            NONE,
            Without("looks at what there is"),
        ),
        probe(
            "file capabilities",
            "open(WORK + '/cap', 'w').close()\nos.setxattr(WORK + '/cap', 'security.capability', struct.pack('<IIIII', 0x02000001, 1 << 21, 0, 0, 0))",
            EPERM,
            Succeeds,
        ),
        probe(
            "attributes of an overlay",
            "open(WORK + '/opaque', 'w').close()\nos.setxattr(WORK + '/opaque', 'trusted.overlay.opaque', b'y')",
            EPERM,
            Succeeds,
        ),
        probe(
            "immutable file in the workspace",
            "open(WORK + '/i', 'w').close()\nd = os.open(WORK + '/i', os.O_RDONLY)\nioctl(d, 0x40086602, struct.pack('l', 0x80010))\nioctl(d, 0x40086602, struct.pack('l', 0x80000))",
            EPERM,
            Without("the throw-away directory is a memory file system"),
        ),
        probe(
            "another project's quota",
            "open(WORK + '/q', 'w').close()\nd = os.open(WORK + '/q', os.O_RDONLY)\nioctl(d, 0x401c5820, struct.pack('IIIII8x', 0, 0, 0, 7, 0))",
            &["EPERM", "EOPNOTSUPP", "ENOTTY", "EINVAL"],
            Without("file systems without quotas know no project"),
        ),
        probe(
            "give a file away",
            "open(WORK + '/g', 'w').close()\nos.chown(WORK + '/g', 0, 0)\nos.chown(WORK + '/g', 1, 1)",
            &["EPERM", "EINVAL"],
            Succeeds,
        ),
        probe(
            "file handles",
            "b = ctypes.create_string_buffer(struct.pack('Ii', 128, 0), 256)\nm = ctypes.c_int()\ncall('name_to_handle_at', -100, text(WORK), b, ctypes.byref(m), 0)\nd = os.open(WORK, os.O_RDONLY)\nos.close(call('open_by_handle_at', d, b, 0))",
            EPERM,
            Succeeds,
        ),
        probe("open a file handle", "call('open_by_handle_at', -1, 0, 0)", EPERM, Reaches),
        probe("another root", "os.mkdir(WORK + '/root')\nos.chroot(WORK + '/root')", EPERM, Succeeds),
        probe("accounting into a file", "call('acct', BAD)", EPERM, Reaches),
        probe(
            "trim the host's file system",
            "d = os.open(WORK, os.O_RDONLY)\nfcntl.ioctl(d, 0xc0185879)",
            &["EPERM", "ENOTTY", "EOPNOTSUPP"],
            Without("a file system of the host"),
        ),
        probe(
            "links in a circle",
            "os.symlink(WORK + '/b', WORK + '/a'); os.symlink(WORK + '/a', WORK + '/b')\nread(WORK + '/a')",
            &["ELOOP"],
            Without("the same everywhere"),
        ),
    ]
}
