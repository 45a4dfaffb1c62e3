//! `tools/packages`, which installs the packages for a checkout, on Debian and on other systems.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::process::Command;

use expect_test::expect;

use crate::program::all_output;

const FEDORA: &str = "ID=fedora\nPRETTY_NAME=\"Fedora Linux 42 (Server Edition)\"\nVERSION_ID=42\n";
const UBUNTU: &str =
    "ID=ubuntu\nID_LIKE=debian\nPRETTY_NAME='Ubuntu 24.04.3 LTS'\nVERSION_ID=\"24.04\"\n";
const BULLSEYE: &str =
    "ID=debian\nPRETTY_NAME=\"Debian GNU/Linux 11 (bullseye)\"\nVERSION_ID=\"11\"\n";

const INSTALLED: &str = "printf installed";
const ABSENT: &str = "exit 1";

/// Names of programs with their scripts, or of variables with their values.
type Pairs<'a> = &'a [(&'a str, &'a str)];

/// Runs the script with only `programs` and a few system programs in the PATH; returns its status
/// and all output.
fn set_up(os_release: &str, programs: Pairs<'_>, env: Pairs<'_>) -> (i32, String) {
    let dir = tempfile::tempdir().unwrap();
    let bin = dir.path().join("bin");
    fs::create_dir(&bin).unwrap();
    for program in ["cat", "dirname", "id", "sed", "sh"] {
        symlink(Path::new("/bin").join(program), bin.join(program)).unwrap();
    }
    for (name, script) in programs {
        let path = bin.join(name);
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let file = dir.path().join("os-release");
    fs::write(&file, os_release).unwrap();
    let output = Command::new("/bin/sh")
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tools/packages"))
        .args(["run"])
        .env_clear()
        .env("PATH", &bin)
        .env("OS_RELEASE", &file)
        .envs(env.iter().copied())
        .output()
        .unwrap();
    (output.status.code().unwrap(), all_output(&output))
}

#[test]
fn other_systems_are_refused_with_the_missing_packages() {
    let programs = [("dpkg-query", ABSENT), ("apt-get", "echo never >&2")];
    let systems: [(&str, &str, Pairs<'_>); 3] = [
        ("Fedora Linux 42 (Server Edition)", FEDORA, &[]),
        ("Ubuntu 24.04.3 LTS", UBUNTU, &programs),
        ("Debian GNU/Linux 11 (bullseye)", BULLSEYE, &programs),
    ];
    for (name, os_release, programs) in systems {
        let (status, output) = set_up(os_release, programs, &[]);
        assert_eq!(status, 2, "{output}");
        expect![[r#"
            bakeoff's set-up knows Debian 12 and 13; this system is NAME
            missing, by Debian's names: clang gcc libc6-dev libelf-dev libzstd-dev make pkgconf zlib1g-dev apt debian-archive-keyring dpkg e2fsprogs gpgv mmdebstrap openssh-client qemu-system-x86 uidmap util-linux zstd
            Install what brings the same here and say so with PACKAGES=present (PACKAGES=present make build),
            or use Debian 12 or 13, in a container if need be.
        "#]]
        .assert_eq(&output.replace(name, "NAME"));
    }
}

#[test]
fn nothing_is_done_if_all_packages_are_installed() {
    let programs = [("dpkg-query", INSTALLED)];
    assert_eq!(set_up(UBUNTU, &programs, &[]), (0, String::new()));
    // The user says that the packages are present.
    let env = [("PACKAGES", "present")];
    assert_eq!(set_up(FEDORA, &[], &env), (0, String::new()));
}

#[test]
fn missing_packages_are_installed_on_debian() {
    let programs = [
        // All packages except one are installed.
        ("dpkg-query", "[ $4 = uidmap ] || printf installed"),
        ("apt-get", "echo \"apt-get $*\""),
        ("sudo", "\"$@\""),
    ];
    for version in ["VERSION_ID=12", "VERSION_ID=\"13\"", ""] {
        let (status, output) = set_up(&format!("ID=debian\n{version}\n"), &programs, &[]);
        assert_eq!(status, 0, "{output}");
        assert!(
            output.starts_with("Debian packages are missing: uidmap\n"),
            "{output}"
        );
        let install = "apt-get install -y -q --no-install-recommends uidmap\n";
        assert!(output.ends_with(install), "{output}");
    }
}
