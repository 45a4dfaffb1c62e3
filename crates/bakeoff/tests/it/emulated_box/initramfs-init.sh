#!/files/busybox sh
# Mounts the disk of the box's host system and starts its init.
b=/files/busybox
$b mkdir -p /proc /sys /dev /root
$b mount -t proc proc /proc
$b mount -t sysfs sysfs /sys
$b mount -t devtmpfs devtmpfs /dev
cd /lib/modules/*
load() {
    line=$($b grep "/$1.ko:" modules.dep)
    for file in $($b echo "${line#*:}" | $b tr ' ' '\n' | $b tac) ${line%%:*}; do
        case $file in
            # The watchdog must continue to run from one kernel to the next.
            */watchdog.ko) $b insmod "$file" stop_on_reboot=0 2> /dev/null ;;
            *) $b insmod "$file" 2> /dev/null ;;
        esac
    done
}
for module in ahci sd_mod crc32c_generic ext4 e1000e i6300esb; do
    load "$module"
done
cd /
while ! [ -b /dev/sda ]; do
    $b sleep 0.1
done
$b mount -t ext4 -o rw /dev/sda /root
$b mkdir -p /dev/keys
$b cp /files/authorized_keys /files/host_key /dev/keys/
$b mount --move /dev /root/dev
exec $b switch_root /root /usr/sbin/own-init
