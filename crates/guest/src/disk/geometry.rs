//! Where data are on the platters, and how long the head takes from one place to another.
//!
//! Seeks take `least + a * sqrt(x) + b * x`, x being the share of the tracks crossed: the three-point curve of Lee and
//! Katz ("An Analytic Performance Model of Disk Arrays", 1993). Over two random places sqrt(x) has the mean 8/15, and x
//! 1/3, so that a and b follow from the average and the full stroke. `plan` refuses times that no such curve fits.
//!
//! Tracks are in `ZONES` zones with equal numbers of tracks; a track has as many bytes as pass the head in a rotation at
//! the zone's rate. Tracks are skewed, so that a sequential read does not wait at a track's end.

use plan::SeekDisk;

/// Zones, the first of the outer rate and the last of the inner one.
const ZONES: u32 = 16;

/// Nanoseconds of a second, and of a minute.
const SECOND: f64 = 1e9;
const MINUTE: f64 = 60e9;

/// Tolerance of angles, as a share of a rotation, because times are whole nanoseconds.
const TOLERANCE: f64 = 1e-5;

/// The geometry of a drive, from its data sheet.
#[derive(Debug, Clone)]
pub(crate) struct Geometry {
    zones: Vec<Zone>,
    turn_ns: f64,
    tracks: f64,
    seek: Seek,
}

#[derive(Debug, Clone, Copy)]
struct Zone {
    start: f64,
    first_track: f64,
    track_bytes: f64,
}

#[derive(Debug, Clone, Copy)]
struct Seek {
    least_ns: f64,
    root: f64,
    line: f64,
}

/// A place under the head.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Place {
    /// The track, counted from outside.
    track: f64,
    /// Position in the track, as a share of a rotation.
    angle: f64,
    /// Bytes that pass the head in a nanosecond.
    bytes_per_ns: f64,
}

impl Geometry {
    pub(crate) fn new(disk: &SeekDisk) -> Self {
        let turn_ns = MINUTE / f64::from(disk.rpm);
        let (outer, inner) = (disk.outer_bytes_per_s as f64, disk.inner_bytes_per_s as f64);
        let share = |zone: u32| f64::from(zone) / f64::from(ZONES - 1);
        let track_bytes = |zone| (outer - (outer - inner) * share(zone)) * turn_ns / SECOND;
        let bytes_per_track_of_all: f64 = (0..ZONES).map(track_bytes).sum();
        let tracks_each = disk.bytes as f64 / bytes_per_track_of_all;
        let mut start = 0.0;
        let zones = (0..ZONES).map(|number| {
            let zone = Zone {
                start,
                first_track: tracks_each * f64::from(number),
                track_bytes: track_bytes(number),
            };
            start += tracks_each * zone.track_bytes;
            zone
        });
        Self {
            zones: zones.collect(),
            turn_ns,
            tracks: tracks_each * f64::from(ZONES),
            seek: Seek::new(disk),
        }
    }

    pub(crate) fn place(&self, byte: u64) -> Place {
        let byte = byte as f64;
        let after = self.zones.partition_point(|zone| zone.start <= byte);
        let zone = self.zones[after.max(1) - 1];
        let turns = (byte - zone.start) / zone.track_bytes;
        Place {
            track: (zone.first_track + turns).floor(),
            angle: turns.fract(),
            bytes_per_ns: zone.track_bytes / self.turn_ns,
        }
    }

    /// Time of a seek; 0 on the same track.
    pub(crate) fn seek_ns(&self, from: Place, to: Place) -> u64 {
        let crossed = (from.track - to.track).abs();
        if crossed < 1.0 {
            return 0;
        }
        let share = (crossed - 1.0) / (self.tracks - 2.0).max(1.0);
        self.seek.ns(share).round() as u64
    }

    /// Time from an instant until the platter has brought a place under the head.
    pub(crate) fn rotation_ns(&self, at_ns: u64, to: Place) -> u64 {
        let now = (at_ns as f64 / self.turn_ns).fract();
        let wait = (to.angle - now).rem_euclid(1.0);
        if wait > 1.0 - TOLERANCE {
            return 0;
        }
        (wait * self.turn_ns).round() as u64
    }
}

impl Place {
    /// Time in which this many bytes pass the head.
    pub(crate) fn transfer_ns(&self, bytes: u64) -> u64 {
        (bytes as f64 / self.bytes_per_ns).round() as u64
    }
}

impl Seek {
    fn new(disk: &SeekDisk) -> Self {
        let ns = |time: std::time::Duration| time.as_nanos() as f64;
        let least_ns = ns(disk.track_to_track);
        let average = ns(disk.average_seek) - least_ns;
        let most = ns(disk.full_stroke) - least_ns;
        Self {
            least_ns,
            root: (15.0 * average - 5.0 * most) / 3.0,
            line: (8.0 * most - 15.0 * average) / 3.0,
        }
    }

    fn ns(self, share: f64) -> f64 {
        self.least_ns + self.root * share.sqrt() + self.line * share
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn geometry() -> Geometry {
        Geometry::new(&SeekDisk::default())
    }

    #[test]
    fn the_seek_curve_goes_through_the_three_times_of_the_data_sheet() {
        let disk = SeekDisk::default();
        let geometry = geometry();
        let (first, last) = (geometry.place(0), geometry.place(disk.bytes - 1));
        let full = geometry.seek_ns(first, last) as f64;
        assert!((full / 15_100_000.0 - 1.0).abs() < 1e-4, "{full}");
        // The next track: 512,000 bytes at 120 turns a second.
        let next = geometry.place(600_000);
        assert_eq!(geometry.seek_ns(first, next), 1_100_000);
        assert_eq!(geometry.seek_ns(first, geometry.place(400_000)), 0);
        // The mean over all pairs of tracks.
        let (steps, mut sum, mut weight) = (1000, 0.0, 0.0);
        for step in 1..steps {
            let share = f64::from(step) / f64::from(steps);
            sum += geometry.seek.ns(share) * (1.0 - share);
            weight += 1.0 - share;
        }
        assert!((sum / weight / 8_500_000.0 - 1.0).abs() < 1e-3);
    }

    #[test]
    fn seeks_never_shrink_with_the_distance() {
        // At the bounds of what a plan may ask for.
        for average_us in [1100 + 14_000 / 3 + 1, 8500, 1100 + 14_000 * 11 / 15] {
            let disk = SeekDisk {
                average_seek: std::time::Duration::from_micros(average_us),
                ..SeekDisk::default()
            };
            let seek = Seek::new(&disk);
            let times: Vec<f64> = (0..=1000).map(|x| seek.ns(f64::from(x) / 1000.0)).collect();
            assert!(times.is_sorted(), "{average_us}");
        }
    }

    #[test]
    fn a_place_comes_by_once_in_a_turn() {
        let geometry = geometry();
        let place = geometry.place(123_456_789);
        let wait = geometry.rotation_ns(1_000_000, place);
        assert!(wait < 8_333_334);
        assert_eq!(geometry.rotation_ns(1_000_000 + wait, place), 0);
        let later = geometry.rotation_ns(1_000_000 + wait + 1_000_000, place);
        assert!(later.abs_diff(7_333_333) < 100, "{later}");
    }

    #[test]
    fn outer_tracks_are_faster() {
        let geometry = geometry();
        let mib = |byte| geometry.place(byte).transfer_ns(61_400_000);
        assert_eq!(mib(0), 1_000_000_000);
        let inner = mib(79_999_000_000);
        assert!(inner.abs_diff(2_067_340_067) < 1000, "{inner}");
    }
}
