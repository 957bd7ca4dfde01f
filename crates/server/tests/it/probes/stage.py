# Runs probes one after the other, each in a process of its own, and prints for each what came of it. The same program runs in a
# session and, with CONTROL, outside of one in a throw-away namespace. Before this text stand CONTROL, CALL (numbers of system
# calls), WHERE (facts about this place) and ROWS (name and code of each probe).
#
# What a probe comes to: OK when its code runs to the end, the text that it puts into `seen`, the name of the error or exception
# that ended it, or the signal that killed it.
import ctypes, ctypes.util, errno, fcntl, mmap, os, resource, select, shutil, signal, socket, stat, struct, subprocess, sys, time

libc = ctypes.CDLL(None, use_errno=True)
BAD = 1  # A pointer that is never mapped.
SUPERVISOR = int(os.environ.get('PARENT', '0'))
DEADLINE = 60


def fail(number):
    raise OSError(number, '')


def call(name, *arguments):
    words = [ctypes.c_long(a) if isinstance(a, int) else a for a in arguments]
    ctypes.set_errno(0)
    number = CALL[name] if isinstance(name, str) else name
    result = libc.syscall(ctypes.c_long(number), *words)
    if result == -1:
        fail(ctypes.get_errno())
    return result


def text(value):
    return ctypes.c_char_p(os.fsencode(value))


def mount(source, target, kind, flags, data=None):
    call('mount', text(source) if source else 0, text(target), text(kind) if kind else 0, flags, text(data) if data else 0)


def opened(path, flags=os.O_RDONLY):
    os.close(os.open(path, flags))


def put(path, content):
    descriptor = os.open(path, os.O_WRONLY)
    os.write(descriptor, content.encode())
    os.close(descriptor)


def read(path, most=4096):
    with open(path, 'rb') as file:
        return file.read(most)


def ioctl(path, request, argument=0, flags=os.O_RDONLY):
    descriptor = path if isinstance(path, int) else os.open(path, flags)
    return fcntl.ioctl(descriptor, request, argument)


def child(do):
    """Runs `do` in a child and raises what ended it."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        code = 0
        try:
            do()
        except OSError as error:
            os.write(writer, str(error.errno).encode())
        os._exit(0)
    os.close(writer)
    said = os.read(reader, 16)
    os.waitpid(pid, 0)
    if said:
        fail(int(said))


def cloned(flags):
    """A child by the raw call, which ends at once."""
    pid = call('clone', flags | signal.SIGCHLD, 0, 0, 0, 0)
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)


def cloned_by_3(flags):
    arguments = (ctypes.c_uint64 * 11)(flags, 0, 0, 0, signal.SIGCHLD, 0, 0, 0, 0, 0, 0)
    pid = call('clone3', arguments, 88)
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)


def sleeper():
    pid = os.fork()
    if pid == 0:
        time.sleep(DEADLINE)
        os._exit(0)
    return pid


def socket_of(family, kind, protocol=0):
    socket.socket(family, kind, protocol).close()


def connected(family, kind, address):
    with socket.socket(family, kind) as s:
        s.settimeout(5)
        s.connect(address)


def option(level, name, value, family=socket.AF_INET, kind=socket.SOCK_STREAM):
    with socket.socket(family, kind) as s:
        s.setsockopt(level, name, value)


def flood(most, again):
    """Repeats until it is refused, which it must be."""
    kept = []
    for number in range(most):
        kept.append(again(number))


def unprivileged():
    """In the control, which is root: what an ordinary user is."""
    if os.getuid() == 0:
        os.setgroups([])
        os.setresgid(65534, 65534, 65534)
        os.setresuid(65534, 65534, 65534)


def probe(code):
    if CONTROL:
        call('unshare', 0x00020000)
    signal.alarm(DEADLINE)
    place = {**globals(), **WHERE, 'seen': 'OK'}
    try:
        exec(code, place)
        return str(place['seen'])
    except OSError as error:
        if isinstance(error, socket.gaierror):
            return 'gaierror'
        if isinstance(error, TimeoutError) and error.errno is None:
            return 'TIMEOUT'
        return 'EOPNOTSUPP' if error.errno == errno.EOPNOTSUPP else errno.errorcode.get(error.errno, str(error.errno))
    except ValueError as error:
        # What Python makes of EPERM.
        return 'EPERM' if 'not allowed to raise' in str(error) else f'ValueError: {error}'[:80].replace('\n', ' ')
    except BaseException as error:
        return type(error).__name__ + ': ' + str(error)[:60].replace('\n', ' ')


def outcome(code):
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reader)
        os.setpgid(0, 0)
        os.write(writer, probe(code).encode()[:200])
        os._exit(0)
    os.close(writer)
    _, status = os.waitpid(pid, 0)
    # What a probe left behind holds the pipe open, so it goes first.
    try:
        os.killpg(pid, signal.SIGKILL)
    except OSError:
        pass
    said = os.read(reader, 256).decode() if select.select([reader], [], [], 2)[0] else ''
    os.close(reader)
    if os.WIFSIGNALED(status):
        return signal.Signals(os.WTERMSIG(status)).name
    return said or 'nothing'


for name, code in ROWS:
    print('probe\t' + name + '\t' + outcome(code), flush=True)
print('probe\tend\tOK', flush=True)
