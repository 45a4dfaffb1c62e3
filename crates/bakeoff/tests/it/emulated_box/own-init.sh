#!/bin/sh
# The init of the box's host system: sets the address, then runs sshd.
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mkdir -p /dev/pts
mount -t devpts devpts /dev/pts
mount -t tmpfs -o mode=755 tmpfs /run
mount -t tmpfs -o mode=1777 tmpfs /tmp
mount -t pstore pstore /sys/fs/pstore
mkdir -p /run/sshd /root/.ssh
cp /dev/keys/authorized_keys /root/.ssh/authorized_keys
cp /dev/keys/host_key /run/sshd/host_key
chmod 700 /root/.ssh
chmod 600 /root/.ssh/authorized_keys /run/sshd/host_key
ip link set lo up
ip link set eth0 up
ip address add 10.0.2.15/24 dev eth0
ip route add default via 10.0.2.2
if [ -e /sys/class/net/eth1 ]; then
    ip link set eth1 up
    ip address add 10.1.0.15/24 dev eth1
fi
echo "box: own system $(uname -r)" > /dev/kmsg
while :; do
    /usr/sbin/sshd -D -e -h /run/sshd/host_key -o UsePAM=no -o PermitRootLogin=yes
    sleep 1
done
