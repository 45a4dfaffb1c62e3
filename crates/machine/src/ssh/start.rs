//! Brings a box from its installed OS to an arm's kernel: command line and scripts. Pure functions.

use std::fmt::Write as _;

use plan::BootWay;

use super::facts::{BoxFacts, Card, Link};
use super::payload::Upload;
use super::session::quoted;

/// The only directory that is made on a box.
pub(crate) const CACHE: &str = "/var/cache/bakeoff";

/// The watchdog's timeout between the two kernels, in seconds.
const WATCHDOG_S: u32 = 180;

/// The command line of an arm's kernel.
pub(crate) struct CommandLine<'l> {
    pub(crate) link: &'l Link,
    /// The cards for the load, perhaps including that of the link.
    pub(crate) cards: &'l [Card],
    pub(crate) facts: &'l BoxFacts,
    /// The port on which the agent listens.
    pub(crate) port: u16,
    /// The port of this host for the kernel's messages.
    pub(crate) console_port: u16,
    /// The arm's number of CPUs, if it sets one.
    pub(crate) cpus: Option<u32>,
    /// The arm's parameters.
    pub(crate) arm: &'l str,
}

impl CommandLine<'_> {
    pub(crate) fn text(&self) -> String {
        let link = self.link;
        // A panic restarts the box, which then boots its installed OS.
        let mut words: Vec<String> = ["panic=5", "loglevel=6", "printk.devkmsg=on"]
            .map(String::from)
            .to_vec();
        words.extend(self.facts.consoles().into_iter().map(String::from));
        words.extend(self.cpus.map(|cpus| format!("nr_cpus={cpus}")));
        let names = link.drivers.iter().map(|driver| driver.name.as_str());
        let mut modules: Vec<&str> = names.collect();
        let cards = self.cards.iter().filter(|card| card.mac != link.mac);
        let cards: Vec<&Card> = cards.collect();
        // A driver's dependencies come after it.
        for driver in cards.iter().flat_map(|card| &card.drivers) {
            modules.retain(|known| *known != driver.name);
            modules.push(&driver.name);
        }
        let watchdog = self.facts.watchdog();
        let watchdog: Vec<&str> = watchdog.iter().map(|driver| driver.name.as_str()).collect();
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
    pub(crate) kernel: &'f Upload,
    pub(crate) initramfs: &'f Upload,
    pub(crate) image: &'f Upload,
}

impl<'f> Files<'f> {
    pub(crate) fn all(&self) -> [&'f Upload; 3] {
        [self.kernel, self.initramfs, self.image]
    }

    /// Bytes of the packed initramfs and image.
    pub(crate) fn initrd_bytes(&self) -> u64 {
        self.initramfs.bytes + self.image.bytes
    }

    /// Memory that a box needs to unpack them: for the packed and the unpacked files, and for the image's page cache.
    pub(crate) fn memory_bytes(&self) -> u64 {
        let unpacked = self.initramfs.unpacked_bytes + 2 * self.image.unpacked_bytes;
        unpacked + self.initrd_bytes() + self.kernel.bytes
    }
}

/// Prints which files the box does not have yet, and removes files that were not used for a month.
pub(crate) fn missing_script(files: &Files<'_>) -> String {
    let mut script = format!("umask 077; mkdir -p {CACHE} && cd {CACHE} || exit 1\n");
    for upload in files.all() {
        let name = &upload.sha256;
        let _ = writeln!(
            script,
            "if [ -f {name} ]; then touch {name}; else echo {name}; fi"
        );
    }
    script.push_str("find . -type f -mtime +30 -exec rm -f {} +\n");
    script
}

/// The path of a file until it is checked.
pub(crate) fn part_path(upload: &Upload) -> String {
    format!("{CACHE}/{}.part", upload.sha256)
}

/// Checks a file that was copied, and keeps it.
pub(crate) fn keep_script(upload: &Upload) -> String {
    let name = &upload.sha256;
    format!(
        "cd {CACHE} && echo '{name}  {name}.part' | sha256sum -c --status && mv {name}.part {name} || {{\n\
         rm -f {name}.part; echo 'a file came there damaged (its disk?): {name}' >&2; exit 1; }}\n"
    )
}

/// Prints the id of the box's boot, and in a second line what shuts the box down, if anything does. Ignores the file
/// `leaving` of an earlier boot.
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

/// Loads an arm's kernel, arms the watchdog, and leaves for the kernel a second later, by kexec or a reboot. The file
/// `leaving` names the process that does this.
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

/// Arms the watchdog: closed without the letter V, it continues to count. If another process has it, nothing changes.
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

/// Leaves for the arm's kernel, by kexec or a reboot: after a clean shutdown by a service manager, or without one after a sync
/// and a read-only remount.
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

/// Unloads the kernel or removes the files of a boot way, once the box has returned.
pub(crate) fn tidy_script(way: BootWay) -> String {
    let remove = match way {
        BootWay::Kexec => "kexec -u > /dev/null 2>&1",
        BootWay::Grub => "rm -rf /boot/bakeoff /boot/grub/custom.cfg",
        BootWay::SystemdBoot => {
            "boot=$(bootctl --print-boot-path); rm -rf \"$boot/bakeoff\" \"$boot/loader/entries/bakeoff.conf\""
        }
    };
    format!("rm -f {CACHE}/leaving; {remove}")
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
        let output = "=== cmdline\nroot=/dev/sda1 quiet console=tty0 console=ttyS1,115200\n=== watchdog\n module:iTCO_wdt \
                      module:lpc-ich\n=== end\n";
        let facts = BoxFacts::parse(output).unwrap();
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
        let command = CommandLine {
            link: &link,
            cards: &[Card::of_link(&link), second],
            facts: &facts,
            port: 7001,
            console_port: 40_000,
            cpus: Some(4),
            arm: "mitigations=off",
        };
        expect!["panic=5 loglevel=6 printk.devkmsg=on console=tty0 console=ttyS1,115200 nr_cpus=4 bakeoff.mac=02:00:00:00:00:01 bakeoff.address=192.0.2.7/24 bakeoff.port=7001 bakeoff.modules=igb,ixgbe,pcieport bakeoff.cards=02:00:00:00:00:02@10.2.0.7/16 bakeoff.watchdog=iTCO_wdt,lpc_ich bakeoff.gateway=192.0.2.254 bakeoff.netconsole=40000@192.0.2.1/02:00:00:00:00:aa mitigations=off"]
            .assert_eq(&command.text());
    }

    /// What shuts this host down as a box, with this content of `leaving` and state of a service manager, if there is one.
    fn leaving_lines(mark: &str, state: Option<&str>) -> Vec<String> {
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
        let text = String::from_utf8(output.stdout).unwrap();
        text.lines().skip(1).map(String::from).collect()
    }

    #[test]
    fn what_takes_a_box_down_is_seen() {
        let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
        let boot = boot.trim();
        let pid = std::process::id();
        let leaving = leaving_lines(&format!("{boot} {pid}\n"), None);
        assert_eq!(
            leaving,
            [format!(
                "process {pid} that loads the arm's kernel, or leaves for it, is still there"
            )]
        );
        // Of an earlier boot, of a process that has ended, an empty file.
        let ended = std::process::Command::new("true").spawn().unwrap();
        let gone = ended.id();
        { ended }.wait().unwrap();
        for mark in [
            format!("x {pid}\n"),
            format!("{boot} {gone}\n"),
            String::new(),
        ] {
            assert_eq!(leaving_lines(&mark, None), [""; 0], "{mark}");
            assert_eq!(leaving_lines(&mark, Some("degraded")), [""; 0], "{mark}");
        }
        assert_eq!(
            leaving_lines("", Some("stopping")),
            ["systemd stops its services (systemctl list-jobs there names them)"]
        );
    }

    #[test]
    fn the_secret_is_in_the_script_and_not_in_the_command_line() {
        let upload = |name: &str| Upload {
            file: name.into(),
            sha256: name.into(),
            bytes: 1,
            unpacked_bytes: 2,
        };
        let (kernel, initramfs, image) = (upload("k"), upload("r"), upload("i"));
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
