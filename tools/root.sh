# Fresh roots of Debian, for bash scripts to read with `.`. Making one needs root.

# Makes the root $root of a release: make_root trixie [PACKAGE,PACKAGE]
make_root() {
    local suite=$1 packages=${2-} mirror settings file
    for program in mmdebstrap unshare apt-get; do
        command -v "$program" >/dev/null || { echo "program not found: $program (make packages)" >&2; exit 2; }
    done
    mirror=$(apt-get indextargets --format '$(SITE) $(ORIGIN)' 'Created-By: Packages' |
        sed -n '/security/d; s/ Debian$//p' | head -1)
    mirror=${BAKEOFF_DEBIAN_MIRROR:-$mirror}
    [ -n "$mirror" ] || { echo "apt knows no Debian mirror (run apt-get update)" >&2; exit 2; }
    root=$(mktemp -d)
    # Mounts of the host's directories in the root have ended with their namespace.
    trap 'rm -rf --one-file-system "$root"' EXIT
    settings=$(mktemp)
    apt-config dump | grep -E '^Acquire::[a-z]+::' >"$settings" || true
    mmdebstrap --quiet --variant=minbase --aptopt="$settings" --include="ca-certificates${packages:+,$packages}" \
        "$suite" "$root" "$mirror"
    rm "$settings"
    for file in /etc/resolv.conf /etc/hosts; do [ ! -e "$file" ] || cp --dereference "$file" "$root/etc/"; done
    # mktemp made it for root alone.
    chmod 755 "$root"
}

# Runs a command in $root: in_root 'FOLDER FOLDER' VARIABLE=VALUE... COMMAND...
# The host's folders are seen there under the same path. Mounts and processes in there end with their namespaces, however this ends.
in_root() {
    local folder
    for folder in $1; do mkdir -p "$root$folder"; done
    ROOT=$root FOLDERS=$1 unshare --mount --propagation private --pid --fork --kill-child bash -euc '
        # The new root is a mount point, which unshare inside requires, and the old root is unmounted.
        mount --bind "$ROOT" "$ROOT"
        cd "$ROOT"
        mkdir -p old
        mount --rbind /sys sys; mount --rbind /dev dev; mount -t proc proc proc
        for folder in $FOLDERS; do mount --bind "$folder" ".$folder"; done
        pivot_root . old
        umount -l /old
        cd /
        exec /usr/bin/env -i HOME=/root DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8 PATH=/usr/sbin:/usr/bin:/sbin:/bin "$@"
    ' in_root "${@:2}"
}
