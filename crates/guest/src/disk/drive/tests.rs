use std::time::Duration;

use super::*;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const MS: u64 = 1_000_000;
const GB: u64 = 1_000_000_000;

/// A turn of 7200 rpm.
const TURN: u64 = 8_333_333;

fn drive_with(change: fn(&mut SeekDisk)) -> Drive {
    let mut disk = SeekDisk::default();
    change(&mut disk);
    Drive::new(&disk)
}

fn bare(disk: &mut SeekDisk) {
    (disk.read_ahead_bytes, disk.write_cache_bytes) = (0, 0);
}

fn read(start: u64, bytes: u64) -> Command {
    Command::Read(Extent { start, bytes })
}

fn write(start: u64, bytes: u64) -> Command {
    Command::Write(Extent { start, bytes })
}

/// Commands one after the other, each `pause` after the end of the one before; the time of all.
fn one_by_one(drive: &mut Drive, pause: u64, commands: impl Iterator<Item = Command>) -> u64 {
    let begin = drive.done_ns;
    let mut now = begin;
    for command in commands {
        now = drive.serve(now, command) + pause;
    }
    now - begin
}

#[test]
fn what_follows_at_once_needs_no_seek_and_no_turn() {
    let mut drive = drive_with(bare);
    drive.serve(0, read(0, 128 * KIB));
    let took = one_by_one(
        &mut drive,
        0,
        (1..100).map(|n| read(n * 128 * KIB, 128 * KIB)),
    );
    let transfer = 99 * 128 * KIB * 1_000_000_000 / 61_400_000;
    assert!(took.abs_diff(transfer) < 10_000, "{took} {transfer}");
    // The tracks are changed in passing: no seek of their own is told, nor waited for.
    assert!(drive.work.seeks <= 26, "{:?}", drive.work);
}

#[test]
fn without_read_ahead_a_late_reader_waits_for_a_turn() {
    let mut drive = drive_with(bare);
    drive.serve(0, read(0, 128 * KIB));
    let took = one_by_one(
        &mut drive,
        100_000,
        (1..11).map(|n| read(n * 128 * KIB, 128 * KIB)),
    );
    // Each comes a tenth of a millisecond late.
    assert!(took > 10 * TURN, "{took}");
    let mut ahead = drive_with(|_| ());
    ahead.serve(0, read(0, 128 * KIB));
    let took = one_by_one(
        &mut ahead,
        100_000,
        (1..11).map(|n| read(n * 128 * KIB, 128 * KIB)),
    );
    assert!(took < 3 * TURN, "{took}");
    assert_eq!(ahead.work.hits, 10);
}

#[test]
fn read_ahead_ends_where_it_has_no_room_and_where_the_head_is_needed() {
    let mut drive = drive_with(|_| ());
    drive.serve(0, read(0, 64 * KIB));
    // Long after, all of the read-ahead is there, and comes as fast as the interface.
    let now = 1000 * MS;
    let took = drive.serve(now, read(64 * KIB, 512 * KIB)) - now;
    assert_eq!(took, 512 * KIB * 10);
    // What lies beyond is not.
    let took = one_by_one(&mut drive, 0, [read(8 * MIB, 64 * KIB)].into_iter());
    assert!(took > MS && drive.work.hits == 1, "{took}");
    let away = drive.serve(2000 * MS, read(40 * GB, 64 * KIB));
    let took = drive.serve(away, read(8 * MIB + 64 * KIB, 64 * KIB)) - away;
    // The head was away, the memory of the drive was used anew.
    assert!(took > 5 * MS, "{took}");
}

#[test]
fn random_reads_take_a_seek_half_a_turn_and_a_transfer() {
    let mut drive = drive_with(|_| ());
    let mut state = 1u64;
    let places = (0..4000).map(|_| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        read((state >> 16) % (79 * GB) / 4096 * 4096, 4 * KIB)
    });
    let mean = one_by_one(&mut drive, 50_000, places) / 4000;
    // By bytes outer tracks are asked for more often than by tracks: seeks are a little shorter than the sheet's average.
    let sheet = 8_500_000 + TURN / 2 + 100_000;
    assert!(mean.abs_diff(sheet) < sheet / 25, "{mean} {sheet}");
    assert!(drive.work.seeks > 3990, "{:?}", drive.work);
}

#[test]
fn writes_into_the_cache_end_at_once_until_it_is_full() {
    let mut drive = drive_with(|_| ());
    let first: Vec<u64> = (0..4)
        .map(|n| drive.serve(0, write(n * GB, 512 * KIB)))
        .collect();
    let carried = 512 * KIB * 10;
    assert_eq!(first, [1, 2, 3, 4].map(|n| n * carried));
    // Four fill it: the next waits for the first to be on the platter.
    let fifth = drive.serve(0, write(5 * GB, 512 * KIB));
    assert!(fifth > 4 * carried + MS, "{fifth}");
    let flushed = drive.serve(fifth, Command::Flush);
    assert!(flushed > fifth + 20 * MS, "{flushed}");
    assert_eq!(drive.serve(flushed, Command::Flush), flushed);
}

#[test]
fn a_stream_of_writes_goes_at_the_rate_of_the_platter_with_the_cache_and_loses_a_turn_each_without()
{
    let stream = || (0..100).map(|n| write(n * 512 * KIB, 512 * KIB));
    let rate = |took: u64| 100.0 * 512.0 * 1024.0 / (took as f64 / 1e9) / 1e6;
    let mut cached = drive_with(|_| ());
    let took = one_by_one(&mut cached, 100_000, stream());
    assert!((58.0..66.0).contains(&rate(took)), "{}", rate(took));
    let mut through = drive_with(bare);
    let took = one_by_one(&mut through, 100_000, stream());
    assert!((28.0..33.0).contains(&rate(took)), "{}", rate(took));
}

#[test]
fn reads_go_before_what_is_in_the_cache() {
    let mut drive = drive_with(|_| ());
    let begun = drive.serve(0, read(0, 4 * KIB));
    for n in 0..3 {
        drive.serve(begun, write(40 * GB + n * 512 * KIB, 512 * KIB));
    }
    // One of them has begun; the read waits for that one alone.
    let now = drive.done_ns + MS;
    let took = drive.serve(now, read(GB, 4 * KIB)) - now;
    let alone = 15_100_000 + TURN + 512 * KIB * 34;
    assert!(took < 2 * alone, "{took}");
    assert_eq!(drive.pending.len(), 2);
}

#[test]
fn what_was_written_is_not_read_from_an_older_read_ahead() {
    let mut drive = drive_with(|_| ());
    let now = drive.serve(0, read(0, 64 * KIB)) + 100 * MS;
    let now = drive.serve(now, write(128 * KIB, 4 * KIB));
    drive.serve(now, read(64 * KIB, 128 * KIB));
    assert_eq!(drive.work.hits, 0);
}

#[test]
fn one_disk_and_one_order_of_commands_give_one_time() {
    let run = || {
        let mut drive = drive_with(|disk| disk.average_seek = Duration::from_millis(9));
        let commands = (0..500u64).map(|n| match n % 3 {
            0 => read(n * 97 * MIB, 128 * KIB),
            1 => write(n * 31 * MIB, 64 * KIB),
            _ => Command::Flush,
        });
        (one_by_one(&mut drive, 10_000, commands), drive.work)
    };
    assert_eq!(run(), run());
}
