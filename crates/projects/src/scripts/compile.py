import concurrent.futures, importlib.util, os, py_compile, struct, sys

MODE = py_compile.PycInvalidationMode.UNCHECKED_HASH


def current(cached, path, source):
    try:
        with open(cached, "rb") as file:
            head = file.read(16)
    except OSError:
        return False
    if head[:4] != importlib.util.MAGIC_NUMBER:
        return False
    if head[4:8] == b"\1\0\0\0":
        return head[8:] == importlib.util.source_hash(source)
    # What came with the virtual environment was compiled by its own installer, with times, which sealing keeps.
    wanted = struct.pack("<II", int(os.stat(path).st_mtime) & 0xFFFFFFFF, len(source) & 0xFFFFFFFF)
    return head[4:8] == b"\0\0\0\0" and head[8:] == wanted


def ensure(path):
    cached = importlib.util.cache_from_source(path)
    try:
        with open(path, "rb") as file:
            source = file.read()
        if not current(cached, path, source):
            py_compile.compile(path, cfile=cached, doraise=True, invalidation_mode=MODE)
    except Exception:
        # Templates and code for other versions of Python do not compile, and nobody imports them.
        pass


def paths(root):
    for above, directories, files in os.walk(root):
        directories[:] = [name for name in directories if name != "__pycache__"]
        for name in files:
            path = os.path.join(above, name)
            if name.endswith(".py") and not os.path.islink(path):
                yield path


if __name__ == "__main__":
    found = sorted(paths(sys.argv[1]))
    with concurrent.futures.ProcessPoolExecutor(2) as pool:
        for _ in pool.map(ensure, found, chunksize=32):
            pass
