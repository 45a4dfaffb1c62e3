//! A network namespace with the box's two cards and two hosts for its clients.
//!
//! ```text
//! namespace: tap0 10.0.2.2 ==== eth0 10.0.2.15 of the box      sshd: client1, client2 on the loopback; far in a namespace without
//!            tap1 10.1.0.2 ==== eth1 10.1.0.15                 any network
//! ```
//! It has no name and ends with its one process, and that with the test.

use std::fmt::Write as _;
use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use super::boxed::{Ended, bound, wait_until};

const SSHD: &str = "/usr/sbin/sshd";

/// Hosts for clients; each has a cache of its own.
pub(super) const CLIENTS: [&str; 2] = ["client1", "client2"];

/// What ends with the test.
pub(super) struct Netns {
    holder: Ended,
    sshds: Vec<Ended>,
}

/// Why there can be none here.
pub(super) fn obstacle() -> Option<&'static str> {
    let is_root = fs::metadata("/proc/self").unwrap().uid() == 0;
    let has_all = ["/dev/net/tun", SSHD]
        .map(Path::new)
        .iter()
        .all(|path| path.exists());
    (!is_root || !has_all).then_some("no clients on this host")
}

impl Netns {
    pub(super) fn make() -> Self {
        let mut holder = bound("unshare");
        holder
            .args(["--net", "sleep", "infinity"])
            .stdin(Stdio::null());
        let holder = Ended(holder.spawn().unwrap());
        let own = fs::read_link("/proc/self/ns/net").unwrap();
        let theirs = format!("/proc/{}/ns/net", holder.0.id());
        wait_until(|| fs::read_link(&theirs).is_ok_and(|theirs| theirs != own));
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
            let done = netns.bound("ip").args(line.split(' ')).status();
            assert!(done.unwrap().success(), "{line}");
        }
        netns
    }

    /// A program inside, that the kernel ends with this test.
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

    /// Starts the hosts, and has ssh know them and the box. Keys are there.
    pub(super) fn start_hosts(&mut self, dir: &Path) {
        // Debian's unit of sshd makes it.
        fs::create_dir_all("/run/sshd").unwrap();
        let at = dir.display();
        let mut config = format!(
            "Host *\n User root\n IdentityFile {at}/key\n IdentitiesOnly yes\n UserKnownHostsFile {at}/hosts.known\n \
             GlobalKnownHostsFile /dev/null\n StrictHostKeyChecking yes\n HostKeyAlias all\n\
             Host box alias\n HostName 10.0.2.15\n\
             Host far\n ProxyCommand unshare --net {SSHD} -i -f {at}/client1.sshd\n"
        );
        for host in CLIENTS {
            // Ports of this namespace are nobody else's, but those of the namespace around it are as good.
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
            self.sshds.push(Ended(sshd.spawn().unwrap()));
            let _ = write!(config, "Host {host}\n HostName 127.0.0.1\n Port {port}\n");
        }
        let public = fs::read_to_string(dir.join("host_key.pub")).unwrap();
        fs::write(dir.join("hosts.known"), format!("all {public}")).unwrap();
        fs::write(dir.join("ssh_config"), config).unwrap();
    }
}
