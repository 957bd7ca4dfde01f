import concurrent.futures, importlib.util, os, py_compile, stat, struct, sys

MODE = py_compile.PycInvalidationMode.UNCHECKED_HASH
LARGEST = 32 << 20


def read(path, longest):
    # Builds leave what they like: a pipe would never end, and opening one that nobody writes waits for ever.
    file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    with open(file, "rb") as file:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode):
            raise OSError("no regular file")
        return file.read(longest), found


def current(cached, found, source):
    try:
        head, _ = read(cached, 16)
    except OSError:
        return False
    if head[:4] != importlib.util.MAGIC_NUMBER:
        return False
    if head[4:8] == b"\1\0\0\0":
        return head[8:] == importlib.util.source_hash(source)
    # What came with the virtual environment was compiled by its own installer, with times, which sealing keeps.
    wanted = struct.pack("<II", int(found.st_mtime) & 0xFFFFFFFF, len(source) & 0xFFFFFFFF)
    return head[4:8] == b"\0\0\0\0" and head[8:] == wanted


def ensure(path):
    cached = importlib.util.cache_from_source(path)
    try:
        source, found = read(path, LARGEST + 1)
        if len(source) <= LARGEST and not current(cached, found, source):
            py_compile.compile(path, cfile=cached, doraise=True, invalidation_mode=MODE)
    except Exception:
        # Templates and code for other versions of Python do not compile, and nobody imports them.
        pass


def paths(root):
    for above, directories, files in os.walk(root):
        # pip is read by nobody but itself, and takes as long as everything else of a small project.
        packages = os.path.basename(above) == "site-packages"
        directories[:] = [name for name in directories if name != "__pycache__" and not (packages and name == "pip")]
        for name in files:
            path = os.path.join(above, name)
            if name.endswith(".py") and not os.path.islink(path):
                yield path


if __name__ == "__main__":
    found = sorted(paths(sys.argv[1]))
    with concurrent.futures.ProcessPoolExecutor(2) as pool:
        for _ in pool.map(ensure, found, chunksize=32):
            pass
