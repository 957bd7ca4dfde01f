# Runs one git command: `bash -c <this> import ARGUMENT...`. CREDENTIALS says what comes on standard input:
# "http" a credential as git's credential protocol writes it, "key" a private key, "none" nothing. Neither leaves memory: git
# gets the one from a daemon of its own, ssh the other from its agent. Exit statuses of its own: 90 to 93.
set -u
umask 077
work=/tmp/import
mkdir -p "$work"
command -v git >/dev/null || exit 90

case $CREDENTIALS in
http)
    socket=$work/credentials
    git credential-cache --timeout 3600 --socket "$socket" store || exit 91
    trap 'git credential-cache --socket "$socket" exit 2>/dev/null' EXIT
    set -- -c credential.helper="cache --timeout 3600 --socket $socket" "$@"
    ;;
key)
    command -v ssh-agent ssh-add >/dev/null || exit 92
    eval "$(ssh-agent -s)" >/dev/null || exit 92
    trap 'ssh-agent -k >/dev/null' EXIT
    DISPLAY= SSH_ASKPASS=/bin/false setsid -w ssh-add -q - 2>/dev/null || exit 93
    ;;
esac

if [ "$TRANSPORT" = ssh ]; then
    command -v ssh >/dev/null || exit 92
    checking=accept-new
    : >"$work/known_hosts"
    if [ -n "$KNOWN_HOSTS" ]; then
        checking=yes
        printf '%s\n' "$KNOWN_HOSTS" >"$work/known_hosts"
    fi
    printf '%s\n' "$CONNECT" >"$work/connect"
    cat >"$work/ssh_config" <<END
Host *
    BatchMode yes
    ProxyCommand /bin/bash $work/connect %h %p
    UserKnownHostsFile $work/known_hosts
    GlobalKnownHostsFile /dev/null
    StrictHostKeyChecking $checking
    UpdateHostKeys no
    PreferredAuthentications none,publickey
    IdentityFile none
    ControlPath none
    ControlMaster no
    ForwardAgent no
    ClearAllForwardings yes
    PermitLocalCommand no
    ConnectTimeout 20
    ServerAliveInterval 10
    ServerAliveCountMax 3
    LogLevel ERROR
END
    export SHELL=/bin/bash GIT_SSH_VARIANT=ssh GIT_SSH_COMMAND="ssh -F $work/ssh_config"
fi

git -c core.hooksPath=/dev/null \
    -c protocol.version=2 \
    -c protocol.allow=never -c protocol.http.allow=always -c protocol.https.allow=always -c protocol.ssh.allow=always \
    -c http.proxy="$PROXY" -c http.followRedirects=initial -c http.lowSpeedLimit=1024 -c http.lowSpeedTime=30 \
    -c credential.helper= -c credential.interactive=never -c credential.useHttpPath=false \
    -c transfer.bundleURI=false -c fetch.recurseSubmodules=false -c fetch.unpackLimit=1 -c fetch.writeCommitGraph=false \
    -c gc.auto=0 -c maintenance.auto=false -c advice.detachedHead=false \
    "$@" </dev/null
