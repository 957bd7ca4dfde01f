# Makes a virtual environment at argv[1], as `python3 -m venv` does. argv[2] is uv, where there is one: it unpacks the wheels that
# ensurepip bundles in a tenth of the time. Their byte code is compiled later, with everything else.
import os, subprocess, sys, venv

directory, *uv = sys.argv[1:]


def bundled():
    # Directories and requirements; none where this Python keeps its wheels in a way that is not known here.
    try:
        import ensurepip

        beside = os.path.join(os.path.dirname(ensurepip.__file__), "_bundled")
        packages = ensurepip._get_packages()
        paths = {name: package.wheel_path or os.path.join(beside, package.wheel_name) for name, package in packages.items()}
        if not all(map(os.path.exists, paths.values())):
            return [], []
        return sorted({os.path.dirname(path) for path in paths.values()}), [f"{name}=={packages[name].version}" for name in paths]
    except Exception:
        return [], []


places, wanted = bundled() if uv else ([], [])
venv.EnvBuilder(symlinks=True, with_pip=not wanted).create(directory)
if wanted:
    install = [uv[0], "pip", "install", "--quiet", "--offline", "--no-index", "--no-deps", "--python", directory + "/bin/python"]
    install += [argument for place in places for argument in ("--find-links", place)]
    if subprocess.run(install + wanted, stdin=subprocess.DEVNULL).returncode != 0:
        venv.EnvBuilder(symlinks=True, with_pip=True, clear=True).create(directory)
