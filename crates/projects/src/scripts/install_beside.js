// Installs packages with npm in a directory of their own and puts them into ./node_modules, which another manager made and npm
// would take apart. Each brings its own dependencies within itself; a package of the same name makes way.
// With `list` it prints name and version of every package that is there then.
const fs = require('fs');
const path = require('path');
const { spawnSync } = require('child_process');

const [npm, ...specs] = process.argv.slice(1);
if (npm === 'list') {
    const found = new Map();
    list('node_modules', found);
    process.stdout.write(JSON.stringify([...found.values()]));
    process.exit(0);
}
const aside = fs.mkdtempSync('/tmp/declared-');
if (fs.existsSync('.npmrc')) fs.copyFileSync('.npmrc', path.join(aside, '.npmrc'));
fs.writeFileSync(path.join(aside, 'package.json'), '{}');
const argv = [npm, 'install', '--no-save', '--install-strategy=nested', '--', ...specs];
const { status } = spawnSync(process.execPath, argv, { cwd: aside, stdio: 'inherit' });
if (status !== 0) process.exit(status ?? 1);

// Links lead to what is found where it lies.
function list(directory, found) {
    for (const entry of fs.readdirSync(directory, { withFileTypes: true })) {
        if (!entry.isDirectory() || entry.name === '.bin') continue;
        const place = path.join(directory, entry.name);
        if (entry.name.startsWith('@')) {
            list(place, found);
        } else if (entry.name.startsWith('.')) {
            // pnpm keeps every package in a node_modules of its own.
            if (entry.name !== '.pnpm') continue;
            for (const inner of fs.readdirSync(place)) {
                if (fs.existsSync(path.join(place, inner, 'node_modules'))) list(path.join(place, inner, 'node_modules'), found);
            }
        } else {
            try {
                const { name, version } = JSON.parse(read(path.join(place, 'package.json')));
                if (typeof name === 'string' && typeof version === 'string') found.set(`${name} ${version}`, { name, version });
            } catch {
                // A directory without a manifest is no package.
            }
            if (fs.existsSync(path.join(place, 'node_modules'))) list(path.join(place, 'node_modules'), found);
        }
    }
}

// Packages hold what their authors like: a pipe would be waited for without end.
function read(file) {
    const { O_RDONLY, O_NONBLOCK, O_NOFOLLOW } = fs.constants;
    const open = fs.openSync(file, O_RDONLY | O_NONBLOCK | O_NOFOLLOW);
    try {
        const found = fs.fstatSync(open);
        if (!found.isFile() || found.size > 4 << 20) throw new Error('no manifest');
        return fs.readFileSync(open);
    } finally {
        fs.closeSync(open);
    }
}

function put(from, to) {
    fs.rmSync(to, { recursive: true, force: true });
    fs.cpSync(from, to, { recursive: true, verbatimSymlinks: true });
}

const target = path.resolve('node_modules');
for (const name of fs.readdirSync(path.join(aside, 'node_modules'))) {
    const [from, to] = [path.join(aside, 'node_modules', name), path.join(target, name)];
    if (name === '.bin' || name.startsWith('@')) {
        fs.mkdirSync(to, { recursive: true });
        for (const inner of fs.readdirSync(from)) put(path.join(from, inner), path.join(to, inner));
    } else if (!name.startsWith('.')) {
        put(from, to);
    }
}
