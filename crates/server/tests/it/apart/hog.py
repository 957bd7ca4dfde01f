# Takes as much as it can of everything that is counted, and keeps it.
import ctypes, ctypes.util, fcntl, mmap, os, resource, socket, subprocess, time

libc = ctypes.CDLL(None, use_errno=True)
kept = []


def check(result):
    if result == -1:
        raise OSError(ctypes.get_errno(), '')
    return result


def most(name, again, bound=20000):
    taken = 0
    try:
        for taken in range(bound):
            kept.append(again(taken))
    except OSError as error:
        print(name, taken, error.strerror, flush=True)
    else:
        print(name, taken, 'without an end', flush=True)


def in_a_child(name, again, bound=20000):
    """Descriptors of one process have a bound of their own, so another one goes on."""
    reader, writer = os.pipe()
    if os.fork() == 0:
        most(name, again, bound)
        os.close(writer)
        time.sleep(300)
        os._exit(0)
    os.close(writer)
    os.read(reader, 1)


def lock(number):
    area = mmap.mmap(-1, 1 << 20)
    check(libc.mlock(ctypes.c_void_p(ctypes.addressof(ctypes.c_char.from_buffer(area))), 1 << 20))
    return area


def wide_pipe(number):
    reader, writer = os.pipe()
    fcntl.fcntl(writer, 1031, 1 << 20)
    return reader, writer


def in_flight(number):
    a, b = socket.socketpair()
    socket.send_fds(a, [b'x'], [0] * 250)
    return a, b


def fill(place):
    path = place + '/fill'
    kept.append(os.open(path, os.O_CREAT | os.O_WRONLY))
    most('disk ' + place, lambda n: os.posix_fallocate(kept[-1], n << 20, 1 << 20) or kept[-1], 1 << 14)


def files(place):
    os.mkdir(place + '/many')
    most('files ' + place, lambda n: os.mknod(f'{place}/many/{n}'), 1 << 20)


def sleeper(number):
    pid = os.fork()
    if pid == 0:
        time.sleep(300)
        os._exit(0)
    return pid


in_a_child('watches', lambda n: check(libc.inotify_init()), 3000)
in_a_child('locked memory', lock)
in_a_child('wide pipes', wide_pipe, 1500)
in_a_child('descriptors in flight', in_flight, 1500)
in_a_child('timers', lambda n: check(libc.timer_create(1, None, ctypes.byref(ctypes.c_void_p()))), 100000)
in_a_child('terminals', lambda n: os.open('/dev/ptmx', os.O_RDWR | os.O_NOCTTY), 3000)
in_a_child('descriptors', lambda n: os.open('/dev/null', os.O_RDONLY))
in_a_child('shared memory segments', lambda n: check(libc.shmget(0, 4096, 0o1600)), 50000)
fill('/dev/shm')
files('/tmp')
most('processes', sleeper, 5000)
area = mmap.mmap(-1, 64 << 20)
area.write(b'x' * (64 << 20))
open('taken', 'w').close()
while True:
    pass
