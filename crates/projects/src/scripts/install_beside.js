// Installs packages with npm in a directory of their own and puts them into ./node_modules, which another manager made and npm
// would take apart. Each brings its own dependencies within itself; a package of the same name makes way.
const fs = require('fs');
const path = require('path');
const { spawnSync } = require('child_process');

const [npm, ...specs] = process.argv.slice(1);
const aside = fs.mkdtempSync('/tmp/declared-');
if (fs.existsSync('.npmrc')) fs.copyFileSync('.npmrc', path.join(aside, '.npmrc'));
fs.writeFileSync(path.join(aside, 'package.json'), '{}');
const argv = [npm, 'install', '--no-save', '--install-strategy=nested', '--', ...specs];
const { status } = spawnSync(process.execPath, argv, { cwd: aside, stdio: 'inherit' });
if (status !== 0) process.exit(status ?? 1);

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
