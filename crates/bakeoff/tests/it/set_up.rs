//! `tools/packages`, the set-up of a checkout, on systems that it knows and on others.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::process::Command;

use expect_test::{Expect, expect};

const FEDORA: &str = "ID=fedora\nPRETTY_NAME=\"Fedora Linux 42 (Server Edition)\"\nVERSION_ID=42\n";
const UBUNTU: &str =
    "ID=ubuntu\nID_LIKE=debian\nPRETTY_NAME='Ubuntu 24.04.3 LTS'\nVERSION_ID=\"24.04\"\n";
const BULLSEYE: &str =
    "ID=debian\nPRETTY_NAME=\"Debian GNU/Linux 11 (bullseye)\"\nVERSION_ID=\"11\"\n";

const INSTALLED: &str = "printf installed";
const ABSENT: &str = "exit 1";

/// Runs the script where `programs` alone exist beside a few of the system's; with status and all that it said.
fn set_up(os_release: &str, programs: &[(&str, &str)], env: &[(&str, &str)]) -> (i32, String) {
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
    let said = Command::new("/bin/sh")
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tools/packages"))
        .args(["run"])
        .env_clear()
        .env("PATH", &bin)
        .env("OS_RELEASE", &file)
        .envs(env.iter().copied())
        .output()
        .unwrap();
    let text = String::from_utf8([said.stdout, said.stderr].concat()).unwrap();
    (said.status.code().unwrap(), text)
}

fn check_refused(os_release: &str, programs: &[(&str, &str)], want: &Expect) {
    let (status, said) = set_up(os_release, programs, &[]);
    assert_eq!(status, 2, "{said}");
    want.assert_eq(&said);
}

#[test]
fn a_system_without_dpkg_is_told_what_is_needed() {
    check_refused(
        FEDORA,
        &[],
        &expect![[r#"
            bakeoff's set-up knows Debian 12 and 13; this system is Fedora Linux 42 (Server Edition)
            missing, by Debian's names: clang gcc libc6-dev libelf-dev libzstd-dev make pkgconf zlib1g-dev apt debian-archive-keyring dpkg e2fsprogs gpgv mmdebstrap openssh-client qemu-system-x86 uidmap util-linux zstd
            Install what brings the same here and say so with PACKAGES=present (PACKAGES=present make build),
            or use Debian 12 or 13, in a container if need be.
        "#]],
    );
}

#[test]
fn a_relative_of_debian_is_told_what_is_needed() {
    let has = [("dpkg-query", ABSENT), ("apt-get", "echo never >&2")];
    check_refused(
        UBUNTU,
        &has,
        &expect![[r#"
            bakeoff's set-up knows Debian 12 and 13; this system is Ubuntu 24.04.3 LTS
            missing, by Debian's names: clang gcc libc6-dev libelf-dev libzstd-dev make pkgconf zlib1g-dev apt debian-archive-keyring dpkg e2fsprogs gpgv mmdebstrap openssh-client qemu-system-x86 uidmap util-linux zstd
            Install what brings the same here and say so with PACKAGES=present (PACKAGES=present make build),
            or use Debian 12 or 13, in a container if need be.
        "#]],
    );
}

#[test]
fn an_old_debian_is_told_what_is_needed() {
    let has = [("dpkg-query", ABSENT), ("apt-get", "echo never >&2")];
    let (status, said) = set_up(BULLSEYE, &has, &[]);
    assert_eq!(status, 2, "{said}");
    assert!(
        said.contains("this system is Debian GNU/Linux 11"),
        "{said}"
    );
}

#[test]
fn where_all_is_installed_the_system_does_not_matter() {
    let has = [("dpkg-query", INSTALLED)];
    assert_eq!(set_up(UBUNTU, &has, &[]), (0, String::new()));
    // Brought another way, by one who says so.
    let says = [("PACKAGES", "present")];
    assert_eq!(set_up(FEDORA, &[], &says), (0, String::new()));
}

#[test]
fn on_debian_what_is_missing_is_installed() {
    let has = [
        // All but one package.
        ("dpkg-query", "[ $4 = uidmap ] || printf installed"),
        ("apt-get", "echo \"apt-get $*\""),
        ("sudo", "\"$@\""),
    ];
    for version in ["VERSION_ID=12", "VERSION_ID=\"13\"", ""] {
        let (status, said) = set_up(&format!("ID=debian\n{version}\n"), &has, &[]);
        assert_eq!(status, 0, "{said}");
        assert!(
            said.starts_with("Debian packages are missing: uidmap\n"),
            "{said}"
        );
        let install = "apt-get install -y -q --no-install-recommends uidmap\n";
        assert!(said.ends_with(install), "{said}");
    }
}
