# Takes a modest share of everything that is counted.
import ctypes, fcntl, mmap, os, socket, time

libc = ctypes.CDLL(None, use_errno=True)
kept = []


def check(result):
    if result == -1:
        raise OSError(ctypes.get_errno(), '')
    return result


def share(name, count, again):
    try:
        for number in range(count):
            kept.append(again(number))
        outcome = 'enough'
    except OSError as error:
        outcome = f'{number} of {count}: {error.strerror}'
    print(f'visit\t{name}\t{outcome}', flush=True)


def lock(number):
    area = mmap.mmap(-1, 1 << 20)
    check(libc.mlock(ctypes.c_void_p(ctypes.addressof(ctypes.c_char.from_buffer(area))), 1 << 20))
    return area


def wide_pipe(number):
    reader, writer = os.pipe()
    return reader, writer, fcntl.fcntl(writer, 1031, 1 << 20)


def in_flight(number):
    a, b = socket.socketpair()
    socket.send_fds(a, [b'x'], [0] * 100)
    return a, b


def sleeper(number):
    pid = os.fork()
    if pid == 0:
        time.sleep(20)
        os._exit(0)
    return pid


def written(path, size):
    with open(path, 'wb') as file:
        for _ in range(size >> 20):
            file.write(b'x' * (1 << 20))


def memory(number):
    area = mmap.mmap(-1, 16 << 20)
    area.write(b'x' * (16 << 20))
    return area


share('watches', 10, lambda n: check(libc.inotify_init()))
share('locked memory', 4, lock)
share('pipes', 4, wide_pipe)
share('descriptors in flight', 4, in_flight)
share('timers', 1000, lambda n: check(libc.timer_create(1, None, ctypes.byref(ctypes.c_void_p()))))
share('terminals', 10, lambda n: os.open('/dev/ptmx', os.O_RDWR | os.O_NOCTTY))
share('descriptors', 1000, lambda n: os.open('/dev/null', os.O_RDONLY))
share('shared memory segments', 100, lambda n: check(libc.shmget(0, 4096, 0o1600)))
share('processes', 30, sleeper)
share('disk in /dev/shm', 1, lambda n: written('/dev/shm/mine', 8 << 20))
share('disk in /tmp', 1, lambda n: written('/tmp/mine', 8 << 20))
share('disk in the workspace', 1, lambda n: written('mine', 8 << 20))
share('files in /tmp', 1000, lambda n: os.mknod(f'/tmp/{n}'))
share('memory', 8, memory)
