//! How a box is brought from its own operating system to an arm's kernel: command line and scripts. Pure.

use std::fmt::Write as _;

use plan::BootWay;

use super::facts::{BoxFacts, Card, Link};
use super::payload::Parcel;
use super::session::quoted;

/// The one directory that is made on a box.
pub(crate) const CACHE: &str = "/var/cache/bakeoff";

/// Seconds that an armed watchdog gives the way from one kernel to the other.
const WATCHDOG_S: u32 = 180;

/// What an arm's kernel is told.
pub(crate) struct Line<'l> {
    pub(crate) link: &'l Link,
    /// The cards that serve, that of the link among them or not.
    pub(crate) cards: &'l [Card],
    pub(crate) facts: &'l BoxFacts,
    /// The agent listens on it.
    pub(crate) port: u16,
    /// The kernel's messages go there, on this host.
    pub(crate) console_port: u16,
    /// The arm's own number of CPUs.
    pub(crate) cpus: Option<u32>,
    /// The arm's own words.
    pub(crate) arm: &'l str,
}

impl Line<'_> {
    pub(crate) fn text(&self) -> String {
        let link = self.link;
        // A kernel that gives up restarts the box, which comes up in its own operating system.
        let mut words: Vec<String> = ["panic=5", "loglevel=6", "printk.devkmsg=on"]
            .map(String::from)
            .to_vec();
        words.extend(self.facts.consoles().into_iter().map(String::from));
        words.extend(self.cpus.map(|cpus| format!("nr_cpus={cpus}")));
        let mut modules: Vec<&str> = link.drivers.iter().map(|one| one.name.as_str()).collect();
        let cards = self.cards.iter().filter(|card| card.mac != link.mac);
        let cards: Vec<&Card> = cards.collect();
        // What a driver hangs on comes after it.
        for driver in cards.iter().flat_map(|card| &card.drivers) {
            modules.retain(|known| *known != driver.name);
            modules.push(&driver.name);
        }
        let watchdog = self.facts.watchdog();
        let watchdog: Vec<&str> = watchdog.iter().map(|one| one.name.as_str()).collect();
        words.extend([
            format!("bakeoff.mac={}", link.mac),
            format!("bakeoff.address={}/{}", link.address, link.prefix),
            format!("bakeoff.port={}", self.port),
            format!("bakeoff.modules={}", modules.join(",")),
        ]);
        if !cards.is_empty() {
            let words_of = |card: &&Card| format!("{}@{}/{}", card.mac, card.address, card.prefix);
            let cards: Vec<String> = cards.iter().map(words_of).collect();
            words.push(format!("bakeoff.cards={}", cards.join(",")));
        }
        if !watchdog.is_empty() {
            words.push(format!("bakeoff.watchdog={}", watchdog.join(",")));
        }
        if let Some(gateway) = link.gateway {
            words.push(format!("bakeoff.gateway={gateway}"));
        }
        if let (Some(controller), Some(mac)) = (link.controller, &link.next_mac) {
            let target = format!("{}@{controller}/{mac}", self.console_port);
            words.push(format!("bakeoff.netconsole={target}"));
        }
        if !self.arm.is_empty() {
            words.push(self.arm.into());
        }
        words.join(" ")
    }
}

/// The files of one arm.
pub(crate) struct Files<'f> {
    pub(crate) kernel: &'f Parcel,
    pub(crate) initramfs: &'f Parcel,
    pub(crate) image: &'f Parcel,
}

impl<'f> Files<'f> {
    pub(crate) fn all(&self) -> [&'f Parcel; 3] {
        [self.kernel, self.initramfs, self.image]
    }

    /// Bytes of the initramfs as it is loaded.
    pub(crate) fn initrd_bytes(&self) -> u64 {
        self.initramfs.bytes + self.image.bytes
    }

    /// Memory that a box needs to unpack them: the unpacked files, and as much for the image's pages as they are read.
    pub(crate) fn memory_bytes(&self) -> u64 {
        let unpacked = self.initramfs.unpacked_bytes + 2 * self.image.unpacked_bytes;
        unpacked + self.initrd_bytes() + self.kernel.bytes
    }
}

/// Says which files the box does not have yet, and lets go of what has not been used for a month.
pub(crate) fn missing_script(files: &Files<'_>) -> String {
    let mut script = format!("umask 077; mkdir -p {CACHE} && cd {CACHE} || exit 1\n");
    for parcel in files.all() {
        let name = &parcel.sha256;
        let _ = writeln!(
            script,
            "if [ -f {name} ]; then touch {name}; else echo {name}; fi"
        );
    }
    script.push_str("find . -type f -mtime +30 -exec rm -f {} +\n");
    script
}

/// Where a file is put until it has been checked.
pub(crate) fn part_path(parcel: &Parcel) -> String {
    format!("{CACHE}/{}.part", parcel.sha256)
}

/// Checks a file that was copied, and keeps it.
pub(crate) fn keep_script(parcel: &Parcel) -> String {
    let name = &parcel.sha256;
    format!(
        "cd {CACHE} && echo '{name}  {name}.part' | sha256sum -c --status && mv {name}.part {name} || {{\n\
         rm -f {name}.part; echo 'a file came there damaged (its disk?): {name}' >&2; exit 1; }}\n"
    )
}

/// Says which boot the box is in, and in a second line what takes it down, if anything does. The mark of a boot before counts for nothing.
pub(crate) const WHERE_SCRIPT: &str = r#"
PATH=/usr/sbin:/usr/bin:/sbin:/bin:$PATH
own=$(cat /proc/sys/kernel/random/boot_id) || exit 1
echo "$own"
if [ -d /run/systemd/system ] && [ "$(timeout 20 systemctl is-system-running 2> /dev/null)" = stopping ]; then
    echo 'systemd stops its services (systemctl list-jobs there names them)'
elif read -r boot process 2> /dev/null < /var/cache/bakeoff/leaving && [ "$boot" = "$own" ] && kill -0 "$process" 2> /dev/null; then
    echo "process $process that loads the arm's kernel, or leaves for it, is still there"
fi
"#;

/// Loads an arm's kernel, arms the watchdog, and leaves for it a second later. The file `leaving` names the process that does.
pub(crate) fn leave_script(
    way: BootWay,
    files: &Files<'_>,
    cmdline: &str,
    secret_archive: &[u8],
) -> String {
    let mut octal = String::new();
    for byte in secret_archive {
        let _ = write!(octal, "\\{byte:03o}");
    }
    let Files {
        kernel,
        initramfs,
        image,
    } = files;
    let (kernel, initramfs, image) = (&kernel.sha256, &initramfs.sha256, &image.sha256);
    let line = quoted(cmdline);
    let initrd = format!("{{ printf '{octal}'; cat {initramfs} {image}; }}");
    let load = match way {
        BootWay::Kexec => format!(
            "{initrd} > initrd\n\
             kexec -s -l {kernel} --initrd=initrd --command-line={line} || kexec -l {kernel} --initrd=initrd --command-line={line}\n\
             rm -f initrd\n"
        ),
        BootWay::Grub => format!(
            "mkdir -p /boot/bakeoff\n\
             {initrd} > /boot/bakeoff/initrd\n\
             cp {kernel} /boot/bakeoff/vmlinuz\n\
             path=$(grub-mkrelpath /boot/bakeoff)\n\
             line={line}\n\
             printf 'menuentry bakeoff --id bakeoff {{\\n search --file --set=root %s/vmlinuz\\n linux %s/vmlinuz %s\\n initrd \
             %s/initrd\\n}}\\n' \"$path\" \"$path\" \"$line\" \"$path\" > /boot/grub/custom.cfg\n\
             grub-reboot bakeoff\n"
        ),
        BootWay::SystemdBoot => format!(
            "boot=$(bootctl --print-boot-path)\n\
             mkdir -p $boot/bakeoff $boot/loader/entries\n\
             {initrd} > $boot/bakeoff/initrd\n\
             cp {kernel} $boot/bakeoff/vmlinuz\n\
             printf 'title bakeoff\\nlinux /bakeoff/vmlinuz\\ninitrd /bakeoff/initrd\\noptions %s\\n' {line} > \
             $boot/loader/entries/bakeoff.conf\n\
             bootctl set-oneshot bakeoff.conf\n"
        ),
    };
    format!(
        "PATH=/usr/sbin:/usr/bin:/sbin:/bin:$PATH\nset -e\numask 077\ncd {CACHE}\n\
         boot=$(cat /proc/sys/kernel/random/boot_id)\necho \"$boot $$\" > leaving\n{load}sync\n{}nohup setsid sh -c {} > /dev/null \
         2>&1 < /dev/null &\necho \"$boot $!\" > leaving\n",
        arm_watchdog(way),
        quoted(&leave(way))
    )
}

/// A watchdog that is closed without its letter V goes on counting; one that somebody has already is left to him.
fn arm_watchdog(way: BootWay) -> String {
    match way {
        BootWay::Kexec => format!(
            "wdctl --settimeout {WATCHDOG_S} /dev/watchdog > /dev/null 2>&1 || true\n\
             if [ -c /dev/watchdog ]; then ( exec 3> /dev/watchdog && printf . >&3 ) 2> /dev/null || true; fi\n"
        ),
        // Firmware may take longer than any watchdog.
        BootWay::Grub | BootWay::SystemdBoot => String::new(),
    }
}

/// A clean shutdown where a service manager can do it; otherwise file systems are left as clean as can be.
fn leave(way: BootWay) -> String {
    let (managed, plain) = match way {
        BootWay::Kexec => ("systemctl kexec", "kexec -e"),
        BootWay::Grub | BootWay::SystemdBoot => ("systemctl reboot", "reboot -f"),
    };
    format!(
        "sleep 1; if [ -d /run/systemd/system ]; then exec {managed}; fi; \
         sync; echo u > /proc/sysrq-trigger; sleep 1; {plain}; echo b > /proc/sysrq-trigger"
    )
}

/// Takes back what a boot way has left, once the box is home.
pub(crate) fn tidy_script(way: BootWay) -> String {
    let own = match way {
        BootWay::Kexec => "kexec -u > /dev/null 2>&1",
        BootWay::Grub => "rm -rf /boot/bakeoff /boot/grub/custom.cfg",
        BootWay::SystemdBoot => {
            "boot=$(bootctl --print-boot-path); rm -rf \"$boot/bakeoff\" \"$boot/loader/entries/bakeoff.conf\""
        }
    };
    format!("rm -f {CACHE}/leaving; {own}")
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::super::facts::Driver;
    use super::*;

    fn link() -> Link {
        let driver = |name: &str| Driver {
            name: name.into(),
            is_module: true,
        };
        Link {
            interface: "eno1".into(),
            mac: "02:00:00:00:00:01".into(),
            address: [192, 0, 2, 7].into(),
            prefix: 24,
            gateway: Some([192, 0, 2, 254].into()),
            controller: Some([192, 0, 2, 1].into()),
            next_mac: Some("02:00:00:00:00:aa".into()),
            drivers: vec![driver("igb")],
        }
    }

    #[test]
    fn a_kernel_is_told_where_it_is_and_how_it_ends() {
        let said = "=== cmdline\nroot=/dev/sda1 quiet console=tty0 console=ttyS1,115200\n=== watchdog\n module:iTCO_wdt \
                    module:lpc-ich\n=== end\n";
        let facts = BoxFacts::parse(said).unwrap();
        let link = link();
        let second = Card {
            interface: "eno2".into(),
            mac: "02:00:00:00:00:02".into(),
            address: [10, 2, 0, 7].into(),
            prefix: 16,
            drivers: vec![
                Driver {
                    name: "ixgbe".into(),
                    is_module: true,
                },
                Driver {
                    name: "pcieport".into(),
                    is_module: false,
                },
            ],
        };
        let told = Line {
            link: &link,
            cards: &[Card::of_link(&link), second],
            facts: &facts,
            port: 7001,
            console_port: 40_000,
            cpus: Some(4),
            arm: "mitigations=off",
        };
        expect!["panic=5 loglevel=6 printk.devkmsg=on console=tty0 console=ttyS1,115200 nr_cpus=4 bakeoff.mac=02:00:00:00:00:01 bakeoff.address=192.0.2.7/24 bakeoff.port=7001 bakeoff.modules=igb,ixgbe,pcieport bakeoff.cards=02:00:00:00:00:02@10.2.0.7/16 bakeoff.watchdog=iTCO_wdt,lpc_ich bakeoff.gateway=192.0.2.254 bakeoff.netconsole=40000@192.0.2.1/02:00:00:00:00:aa mitigations=off"]
            .assert_eq(&told.text());
    }

    /// What this host says as a box with such a mark, where its own service manager, if it has one, says `state`.
    fn told_of(mark: &str, state: Option<&str>) -> Vec<String> {
        let dir = tempfile::tempdir().unwrap();
        let place = dir.path().to_str().unwrap();
        std::fs::write(dir.path().join("leaving"), mark).unwrap();
        let mut script = WHERE_SCRIPT.replace(CACHE, place);
        let managed = if state.is_some() { place } else { "/nowhere" };
        script = script.replace("/run/systemd/system", managed);
        let systemctl = format!("printf '%s\\n' {}", state.unwrap_or("none"));
        script = script.replace("systemctl is-system-running", &systemctl);
        let output = std::process::Command::new("sh")
            .arg("-c")
            .arg(script)
            .output();
        let output = output.unwrap();
        assert!(output.status.success(), "{output:?}");
        let said = String::from_utf8(output.stdout).unwrap();
        said.lines().skip(1).map(String::from).collect()
    }

    #[test]
    fn what_takes_a_box_down_is_seen() {
        let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
        let boot = boot.trim();
        let own = std::process::id();
        let leaving = told_of(&format!("{boot} {own}\n"), None);
        assert_eq!(
            leaving,
            [format!(
                "process {own} that loads the arm's kernel, or leaves for it, is still there"
            )]
        );
        // Of a boot before, of a process that has ended, no mark at all.
        let ended = std::process::Command::new("true").spawn().unwrap();
        let gone = ended.id();
        { ended }.wait().unwrap();
        for mark in [
            format!("x {own}\n"),
            format!("{boot} {gone}\n"),
            String::new(),
        ] {
            assert_eq!(told_of(&mark, None), [""; 0], "{mark}");
            assert_eq!(told_of(&mark, Some("degraded")), [""; 0], "{mark}");
        }
        assert_eq!(
            told_of("", Some("stopping")),
            ["systemd stops its services (systemctl list-jobs there names them)"]
        );
    }

    #[test]
    fn the_secret_is_in_the_script_and_not_in_the_command_line() {
        let parcel = |name: &str| Parcel {
            file: name.into(),
            sha256: name.into(),
            bytes: 1,
            unpacked_bytes: 2,
        };
        let (kernel, initramfs, image) = (parcel("k"), parcel("r"), parcel("i"));
        let files = Files {
            kernel: &kernel,
            initramfs: &initramfs,
            image: &image,
        };
        assert_eq!(files.memory_bytes(), 9);
        let script = leave_script(BootWay::Kexec, &files, "panic=5 x='1'", b"A\0");
        expect![[r#"
            PATH=/usr/sbin:/usr/bin:/sbin:/bin:$PATH
            set -e
            umask 077
            cd /var/cache/bakeoff
            boot=$(cat /proc/sys/kernel/random/boot_id)
            echo "$boot $$" > leaving
            { printf '\101\000'; cat r i; } > initrd
            kexec -s -l k --initrd=initrd --command-line='panic=5 x='\''1'\''' || kexec -l k --initrd=initrd --command-line='panic=5 x='\''1'\'''
            rm -f initrd
            sync
            wdctl --settimeout 180 /dev/watchdog > /dev/null 2>&1 || true
            if [ -c /dev/watchdog ]; then ( exec 3> /dev/watchdog && printf . >&3 ) 2> /dev/null || true; fi
            nohup setsid sh -c 'sleep 1; if [ -d /run/systemd/system ]; then exec systemctl kexec; fi; sync; echo u > /proc/sysrq-trigger; sleep 1; kexec -e; echo b > /proc/sysrq-trigger' > /dev/null 2>&1 < /dev/null &
            echo "$boot $!" > leaving
        "#]]
        .assert_eq(&script);
        for way in [BootWay::Grub, BootWay::SystemdBoot] {
            let script = leave_script(way, &files, "panic=5", b"A");
            assert!(
                script.contains("reboot") && !script.contains("wdctl"),
                "{script}"
            );
        }
    }
}
