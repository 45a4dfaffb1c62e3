# Runs in the emulated guest like inside.sh, until one inner guest was measured.
cd "$(dirname "$0")"
export XDG_CACHE_HOME=$PWD/cache
# Keeps kernel messages out of the output.
dmesg --console-level emerg

show() {
    { echo "=== begin $1"; base64 "$2"; echo "=== end $1"; } >/dev/console
}

mkdir -p cache && tar -xzf cache.tar.gz -C cache && rm cache.tar.gz ../files/cache.tar.gz
# One huge page more than the memory of a guest.
sysctl -q vm.nr_hugepages=257
./bakeoff run inner.toml >said.txt 2>&1 &
until grep -q '"ending":"measured"' runs/inner/journal.jsonl 2>/dev/null; do
    # If the run ends by itself, print its output too.
    kill -0 $! 2>/dev/null || break
    sleep 0.2
done
kill -INT $!; wait
show run said.txt
show journal.jsonl runs/inner/journal.jsonl
for facts in runs/inner/trials/*/facts.json; do show facts "$facts"; done
