# Runs in the emulated guest. Prints files of results on the console, in base64 between two marks.
cd "$(dirname "$0")"
export XDG_CACHE_HOME=$PWD/cache
# Keeps kernel messages out of the output.
dmesg --console-level emerg

show() {
    { echo "=== begin $1"; base64 "$2"; echo "=== end $1"; } >/dev/console
}
# Runs a command as `record NAME COMMAND...` and prints its output as file NAME, with the status in the last line.
record() {
    name=$1; shift
    "$@" >said.txt 2>&1; echo "status $?" >>said.txt
    show "$name" said.txt
}

if ! grep -qw svm /proc/cpuinfo; then
    record doctor-no-svm ./bakeoff doctor
    record check-no-svm ./bakeoff check inner.toml
    exit 0
fi

mv /dev/kvm /dev/kvm.away
record doctor-no-device ./bakeoff doctor
mv /dev/kvm.away /dev/kvm
chmod 600 /dev/kvm
mkdir -m 777 nobody
record doctor-no-permission setpriv --reuid 65534 --regid 65534 --clear-groups env XDG_CACHE_HOME="$PWD/nobody" ./bakeoff doctor

# The file system is in memory, so remove copies.
mkdir -p cache && tar -xzf cache.tar.gz -C cache && rm cache.tar.gz ../files/cache.tar.gz
# One huge page more than the memory of a guest.
sysctl -q vm.nr_hugepages=257
record doctor ./bakeoff doctor
record check ./bakeoff check inner.toml
record run ./bakeoff run inner.toml
for file in verdict.json report.md journal.jsonl; do show "$file" "runs/inner/$file"; done
for facts in runs/inner/trials/*/facts.json; do show "facts $(basename "$(dirname "$facts")")" "$facts"; done
# For void trials, which have no facts, print the end of the console.
for trial in runs/inner/trials/*; do [ -e "$trial/facts.json" ] || tail -n 20 "$trial/console.log"; done >void.txt 2>&1
show void void.txt
