import importlib.metadata, json, sys

try:
    import ensurepip

    seeds = {(name, package.version) for name, package in ensurepip._get_packages().items()}
except Exception:
    seeds = set()
found = {}
for distribution in importlib.metadata.distributions():
    name, version = distribution.metadata["Name"], distribution.version
    if name and version and name.lower() != "pip" and (name, version) not in seeds:
        found.setdefault(name, version)
json.dump([{"name": name, "version": found[name]} for name in sorted(found)], sys.stdout)
