# Comes by whatever stands open. OTHER is the number of a process that is looked for.
import ctypes, errno, os, socket, struct

libc = ctypes.CDLL(None, use_errno=True)
OTHER = int(os.environ.get('OTHER', OTHER))
SECRET = b'words of the ' + b'victim'


def check(result):
    if result == -1:
        raise OSError(ctypes.get_errno(), '')
    return result


def connect(family, address):
    with socket.socket(family) as s:
        s.settimeout(5)
        s.connect(address)


def ask(port):
    with socket.socket(type=socket.SOCK_DGRAM) as s:
        s.settimeout(1)
        s.connect(('127.0.0.1', port))
        s.send(b'x')
        s.send(b'x')


def read(path):
    with open(path, 'rb') as file:
        if SECRET not in file.read(4096):
            raise OSError(errno.ENODATA, '')


def write(path):
    os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK))


def shared():
    libc.shmat.restype = ctypes.c_void_p
    address = libc.shmat(check(libc.shmget(0x53544541, 0, 0)), None, 0)
    if ctypes.string_at(address, len(SECRET)) != SECRET:
        raise OSError(errno.ENODATA, '')


def any_named(word):
    for pid in filter(str.isdigit, os.listdir('/proc')):
        try:
            with open(f'/proc/{pid}/cmdline', 'rb') as file:
                if word in file.read():
                    return
        except OSError:
            pass
    raise OSError(errno.ESRCH, '')


def any_file(name):
    for top in ('/tmp', '/dev/shm', '/workspace', '/home', '/run', '/env', '/var'):
        for _, _, names in os.walk(top):
            if name in names:
                return
    raise OSError(errno.ENOENT, '')


def in_table(path, word):
    with open(path) as file:
        if word not in file.read():
            raise OSError(errno.ENOENT, '')


ways = {
    'a connection': lambda: connect(socket.AF_INET, ('127.0.0.1', 17801)),
    'a connection to another address': lambda: connect(socket.AF_INET, ('127.0.0.2', 17801)),
    'a connection of version 6': lambda: connect(socket.AF_INET6, ('::1', 17802)),
    'a datagram': lambda: ask(17803),
    'an abstract socket': lambda: connect(socket.AF_UNIX, '\0stead-apart'),
    'a named socket': lambda: connect(socket.AF_UNIX, '/tmp/apart.sock'),
    'a file in /tmp': lambda: read('/tmp/apart'),
    'a file in /dev/shm': lambda: read('/dev/shm/apart'),
    'write a file in /tmp': lambda: write('/tmp/apart'),
    'write a file in /dev/shm': lambda: write('/dev/shm/apart'),
    'a fifo': lambda: write('/tmp/apart.fifo'),
    'shared memory': shared,
    'a message queue': lambda: check(libc.msgget(0x53544541, 0)),
    'semaphores': lambda: check(libc.semget(0x53544541, 0, 0)),
    'a name of a process': lambda: any_named(b'house' + b'.py'),
    'a name of a file': lambda: any_file('house' + '.py'),
    'a signal': lambda: os.kill(OTHER, 0),
    'a priority': lambda: os.getpriority(os.PRIO_PROCESS, OTHER),
    'a handle': lambda: os.close(os.pidfd_open(OTHER)),
    'the state of a process': lambda: os.stat(f'/proc/{OTHER}/status'),
    'the root of a process': lambda: os.listdir(f'/proc/{OTHER}/root'),
    'the memory of a process': lambda: os.close(os.open(f'/proc/{OTHER}/mem', os.O_RDWR)),
    'descriptors of a process': lambda: os.listdir(f'/proc/{OTHER}/fd'),
    'the table of unix sockets': lambda: in_table('/proc/net/unix', 'stead-' + 'apart'),
    'the table of connections': lambda: in_table('/proc/net/tcp', ':4589 '),
    'the table of shared memory': lambda: in_table('/proc/sysvipc/shm', str(0x53544541)),
}
for name, way in ways.items():
    try:
        way()
        outcome = 'reached'
    except OSError as error:
        outcome = errno.errorcode.get(error.errno, str(error))
    print(f'visit\t{name}\t{outcome}', flush=True)
