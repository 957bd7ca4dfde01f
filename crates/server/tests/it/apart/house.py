# A session in which everything stands open.
import ctypes, os, socket, struct, time

libc = ctypes.CDLL(None, use_errno=True)
SECRET = b'words of the ' + b'victim'
kept = [bytearray(SECRET * 1000)]

stream = socket.socket()
stream.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
stream.bind(('0.0.0.0', 17801))
stream.listen(20)
six = socket.socket(socket.AF_INET6)
six.setsockopt(41, 26, 1)
six.bind(('::', 17802))
six.listen(20)
datagram = socket.socket(type=socket.SOCK_DGRAM)
datagram.bind(('127.0.0.1', 17803))
kept += [stream, six, datagram]
for name in ('\0stead-apart', '/tmp/apart.sock'):
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(name)
    listener.listen(20)
    kept.append(listener)

segment = libc.shmget(0x53544541, 4096, 0o1666)
libc.shmat.restype = ctypes.c_void_p
ctypes.memmove(libc.shmat(segment, None, 0), SECRET, len(SECRET))
queue = libc.msgget(0x53544541, 0o1666)
libc.msgsnd(queue, struct.pack('l', 1) + SECRET, len(SECRET), 0)
libc.semget(0x53544541, 1, 0o1666)
for path in ('/dev/shm/apart', '/tmp/apart', '/var/tmp/apart'):
    try:
        with open(path, 'wb') as file:
            file.write(SECRET)
        os.chmod(path, 0o666)
    except OSError:
        pass
if not os.path.exists('/tmp/apart.fifo'):
    os.mkfifo('/tmp/apart.fifo', 0o666)
kept.append(os.open('/tmp/apart.fifo', os.O_RDWR))
lock = open('/tmp/apart.lock', 'w')
open('open', 'w').close()
time.sleep(300)
