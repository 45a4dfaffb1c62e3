# Runs in the emulated guest. What it finds goes to the console, a file at a time, as base64 between two marks.
cd "$(dirname "$0")"
export XDG_CACHE_HOME=$PWD/cache
# Nothing of the kernel's between the lines.
dmesg --console-level emerg

show() {
    { echo "=== begin $1"; base64 "$2"; echo "=== end $1"; } >/dev/console
}
# Runs a command as `said NAME COMMAND...` and shows what it says, with its status in the last line.
said() {
    name=$1; shift
    "$@" >said.txt 2>&1; echo "status $?" >>said.txt
    show "$name" said.txt
}

if ! grep -qw svm /proc/cpuinfo; then
    said doctor-no-svm ./bakeoff doctor
    said check-no-svm ./bakeoff check inner.toml
    exit 0
fi

mv /dev/kvm /dev/kvm.away
said doctor-no-device ./bakeoff doctor
mv /dev/kvm.away /dev/kvm
chmod 600 /dev/kvm
mkdir -m 777 nobody
said doctor-no-permission setpriv --reuid 65534 --regid 65534 --clear-groups env XDG_CACHE_HOME="$PWD/nobody" ./bakeoff doctor

# All of it is in memory, so each copy counts.
mkdir -p cache && tar -xzf cache.tar.gz -C cache && rm cache.tar.gz ../files/cache.tar.gz
# One page more than a guest takes, so that it has all of its memory in them.
sysctl -q vm.nr_hugepages=257
said doctor ./bakeoff doctor
said check ./bakeoff check inner.toml
said run ./bakeoff run inner.toml
for file in verdict.json report.md journal.jsonl; do show "$file" "runs/inner/$file"; done
for facts in runs/inner/trials/*/facts.json; do show "facts $(basename "$(dirname "$facts")")" "$facts"; done
# For whoever looks why a trial was void: its directory has no facts.
for trial in runs/inner/trials/*; do [ -e "$trial/facts.json" ] || tail -n 20 "$trial/console.log"; done >void.txt 2>&1
show void void.txt
