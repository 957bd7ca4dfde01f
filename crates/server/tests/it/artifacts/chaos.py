# Leaves a working directory in as bad a state as it can, and processes that go on changing it while its files are collected.
# SEED makes it another one each time. Every regular file that is made here holds the letters of `own:x` and zeros alone.
import os, random, signal, socket, sys, time

dice = random.Random(SEED)
LAYER = os.environ.get('PROJECT_ROOT', '/env/nothing')
OUTSIDE = ['/etc/passwd', '/etc', '/proc/1/environ', '/proc/self/environ', '/usr/bin/env', LAYER + '/secret.txt', LAYER,
           '../../../../etc/passwd', '/dev/zero', '/dev/null', '/proc/kmsg', '/run/egress/proxy.sock', '/', '/tmp/outside',
           '/proc/self/fd/0', '/proc/self/root/etc/passwd', '/dev/shm/outside']
NAMES = [b'a', b'b', b'd', b'd/a', b'd/b', b'd/d', b'd/d/a', b'e', b'e/a', b'new\nline', b'\xff\xfe', b'd/\xc3', b'x' * 255,
         b'sp ace', b'"quote', b'%2e%2e', b'back\\slash', b'.hidden', b'\x01\x7f', 'ü'.encode(), b'-rf', b'...', b'e/' + b'y' * 200]
for place in ('/tmp/outside', '/dev/shm/outside'):
    with open(place, 'w') as file:
        file.write('from outside\n')


def name():
    return dice.choice(NAMES)


def at_once(path, flags):
    """A fifo that nobody reads is an error and no reason to wait."""
    return os.open(path, flags | os.O_NONBLOCK)


def write(path, size=None):
    with open(path, 'wb', opener=at_once) as file:
        file.write(b'own:' + b'x' * (dice.randrange(2000) if size is None else size))


def sparse(path):
    with open(path, 'wb', opener=at_once) as file:
        file.truncate(dice.choice([3 << 20, 5 << 30]))


def grow(path):
    with open(path, 'ab', opener=at_once) as file:
        if file.tell() == 0:
            file.write(b'own:')
        if file.tell() < 4 << 20:
            file.write(b'x' * 300000)


def bound(path):
    with socket.socket(socket.AF_UNIX) as s:
        s.bind(path)


def rename(path):
    os.rename(name(), path)


def deep(path):
    os.makedirs(path, exist_ok=True)
    here = path
    for _ in range(dice.randrange(150)):
        here += b'/d'
        os.mkdir(here)
    write(here + b'/a')


def replace(path):
    """A directory becomes a link to another one under the eyes of whoever walks through it."""
    aside = b'aside-%d' % dice.randrange(10**9)
    os.rename(path, aside)
    os.symlink(dice.choice(OUTSIDE), path)


DEEDS = [
    (6, write), (2, sparse), (3, grow), (2, bound), (4, rename), (1, deep), (5, replace),
    (6, lambda p: os.symlink(dice.choice(OUTSIDE), p)),
    (3, lambda p: os.link(dice.choice(OUTSIDE), p)),
    (3, lambda p: os.link(name(), p)),
    (2, lambda p: os.link(name(), p, follow_symlinks=False)),
    (2, os.mkfifo),
    (2, lambda p: os.mknod(p, 0o20600, 0)),
    (5, lambda p: os.makedirs(p, exist_ok=True)),
    (4, os.unlink),
    (2, os.rmdir),
    (1, lambda p: os.chmod(p, dice.choice([0, 0o444, 0o4755, 0o777]), follow_symlinks=True) if not os.path.islink(p) else None),
    (1, lambda p: os.truncate(p, 0) if not os.path.islink(p) else None),
    (1, lambda p: os.utime(p, (dice.randrange(1 << 33), -1), follow_symlinks=False)),
]
WEIGHTS, ACTS = zip(*DEEDS)


def deed():
    act = dice.choices(ACTS, WEIGHTS)[0]
    try:
        act(name())
    except (OSError, ValueError):
        pass


def survivor(kind):
    """A process that does not want to end with the script."""
    if os.fork():
        return
    os.setsid()
    if os.fork():
        os._exit(0)
    for number in range(1, 65):
        try:
            signal.signal(number, signal.SIG_IGN)
        except (OSError, ValueError):
            pass
    for stream in (0, 1, 2):
        os.close(stream)
    dice.seed(f'{SEED} {kind}')
    if kind % 4 == 1:
        os.kill(os.getpid(), signal.SIGSTOP)
    while True:
        if kind % 4 == 2 and os.fork():
            # Gone before anybody can take aim; the child goes on.
            os._exit(0)
        deed()
        if kind % 4 == 3:
            time.sleep(0.001)


for kind in range(dice.randrange(2, 7)):
    survivor(kind)
for _ in range(dice.randrange(30, 400)):
    deed()
try:
    write(b'last')
except OSError:
    pass
print('done', flush=True)
