//! A network namespace with the box's two cards and two hosts for its clients.
//!
//! ```text
//! namespace: tap0 10.0.2.2 ==== eth0 10.0.2.15 of the box      sshd: client1, client2 on the loopback; far in a namespace without
//!            tap1 10.1.0.2 ==== eth1 10.1.0.15                 any network
//! ```
//! The namespace has no name. It ends with its only process, which ends with the test.

use std::fmt::Write as _;
use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};

use super::boxed::{bound, wait_until};
use crate::program::{KillOnDrop, is_root};

const SSHD: &str = "/usr/sbin/sshd";

/// Hosts for clients, each with a separate cache.
pub(super) const CLIENTS: [&str; 2] = ["client1", "client2"];

pub(super) struct Netns {
    holder: KillOnDrop,
    sshds: Vec<KillOnDrop>,
}

/// Why this host cannot have the namespace, if it cannot.
pub(super) fn obstacle() -> Option<&'static str> {
    let has_all = Path::new("/dev/net/tun").exists() && Path::new(SSHD).exists();
    (!is_root() || !has_all).then_some("no clients on this host")
}

impl Netns {
    pub(super) fn make() -> Self {
        let mut holder = bound("unshare");
        holder
            .args(["--net", "sleep", "infinity"])
            .stdin(Stdio::null());
        let holder = KillOnDrop(holder.spawn().unwrap());
        let of_test = fs::read_link("/proc/self/ns/net").unwrap();
        let link = format!("/proc/{}/ns/net", holder.0.id());
        wait_until(|| fs::read_link(&link).is_ok_and(|namespace| namespace != of_test));
        let netns = Self {
            holder,
            sshds: Vec::new(),
        };
        for line in [
            "link set lo up",
            "tuntap add dev tap0 mode tap",
            "tuntap add dev tap1 mode tap",
            "address add 10.0.2.2/24 dev tap0",
            "address add 10.1.0.2/24 dev tap1",
            "link set tap0 up",
            "link set tap1 up",
        ] {
            let status = netns.bound("ip").args(line.split(' ')).status();
            assert!(status.unwrap().success(), "{line}");
        }
        netns
    }

    /// A command in the namespace that the kernel kills when this test ends.
    pub(super) fn bound(&self, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        let holder = self.holder.0.id().to_string();
        command.args([
            "--target",
            &holder,
            "--net",
            "setpriv",
            "--pdeathsig",
            "KILL",
        ]);
        command.arg(program);
        command
    }

    /// Starts the hosts, and writes ssh's configuration for them and the box. The keys must exist.
    pub(super) fn start_hosts(&mut self, dir: &Path) {
        // Debian's unit of sshd creates this directory.
        fs::create_dir_all("/run/sshd").unwrap();
        let at = dir.display();
        let mut config = format!(
            "Host *\n User root\n IdentityFile {at}/key\n IdentitiesOnly yes\n UserKnownHostsFile {at}/hosts.known\n \
             GlobalKnownHostsFile /dev/null\n StrictHostKeyChecking yes\n HostKeyAlias all\n\
             Host box alias\n HostName 10.0.2.15\n\
             Host far\n ProxyCommand unshare --net {SSHD} -i -f {at}/client1.sshd\n"
        );
        for host in CLIENTS {
            // A port that is free outside is free in the new namespace too.
            let port = TcpListener::bind("127.0.0.1:0")
                .unwrap()
                .local_addr()
                .unwrap()
                .port();
            let text = format!(
                "ListenAddress 127.0.0.1:{port}\nHostKey {at}/host_key\nAuthorizedKeysFile {at}/authorized_keys\nPidFile none\n\
                 StrictModes no\nPermitRootLogin yes\nPasswordAuthentication no\nSetEnv XDG_CACHE_HOME={at}/{host}\n"
            );
            let file = dir.join(format!("{host}.sshd"));
            fs::write(&file, text).unwrap();
            let mut sshd = self.bound(SSHD);
            sshd.arg("-D").arg("-f").arg(&file).stdin(Stdio::null());
            sshd.stdout(Stdio::null()).stderr(Stdio::null());
            self.sshds.push(KillOnDrop(sshd.spawn().unwrap()));
            let _ = write!(config, "Host {host}\n HostName 127.0.0.1\n Port {port}\n");
        }
        let public = fs::read_to_string(dir.join("host_key.pub")).unwrap();
        fs::write(dir.join("hosts.known"), format!("all {public}")).unwrap();
        fs::write(dir.join("ssh_config"), config).unwrap();
    }
}
