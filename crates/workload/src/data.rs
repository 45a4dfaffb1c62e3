//! Data from a seed: the same bytes on every machine and in every year.
//!
//! Hashes of this data are compared between arms and runs, so the generator is written out here and
//! not taken from a library, whose stream may change with its version.

/// `SplitMix64` (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014).
#[derive(Debug, Clone)]
pub struct Stream {
    state: u64,
}

impl Stream {
    /// The stream of one seed for one purpose, so that purposes do not share numbers.
    pub fn new(seed: u64, purpose: &str) -> Self {
        // FNV-1a spreads the purpose over the state; any spread would do, but it must never change.
        let spread = purpose
            .bytes()
            .fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
                (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
            });
        Self {
            state: seed ^ spread,
        }
    }

    /// The next 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `end`.
    pub fn below(&mut self, end: u64) -> u64 {
        assert!(end > 0, "there is no number below zero");
        ((u128::from(self.bits()) * u128::from(end)) >> 64) as u64
    }

    /// Puts items into a random order (Fisher and Yates).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for end in (2..=items.len()).rev() {
            items.swap(end - 1, self.below(end as u64) as usize);
        }
    }
}

const WORDS: &[&str] = &[
    "server", "kernel", "page", "request", "thread", "memory", "network", "packet", "answer",
    "client", "image", "cache", "socket", "file", "block", "queue", "time", "measure", "and",
    "the", "of", "with", "under", "over", "between", "slow", "fast", "many", "few", "long",
];

/// An HTML page of exactly `length` bytes that shows `images`; at least 1000 bytes.
pub fn page(seed: u64, length: usize, images: &[&str]) -> Vec<u8> {
    const END: &str = "</body></html>\n";
    const EMPTY_COMMENT: &str = "<!---->\n";
    assert!(
        length >= 1000,
        "a page has room for its head and images: {length}"
    );
    let mut stream = Stream::new(seed, "page");
    let head = "<!DOCTYPE html>\n<html><head><title>bakeoff</title></head><body>\n";
    let mut page = head.to_string();
    for image in images {
        page.extend(["<img src=\"", image, "\" alt=\"\">\n"]);
    }
    let end = length - END.len() - EMPTY_COMMENT.len();
    let paragraphs = std::iter::from_fn(|| Some(paragraph(&mut stream)));
    for paragraph in paragraphs {
        if page.len() + paragraph.len() > end {
            break;
        }
        page += &paragraph;
    }
    // What is left after the last whole paragraph is filled with a comment.
    let filling = ".".repeat(end - page.len());
    page.extend(["<!--", &filling, "-->\n", END]);
    assert_eq!(page.len(), length, "the comment fills the rest exactly");
    page.into_bytes()
}

fn paragraph(stream: &mut Stream) -> String {
    let count = 20 + stream.below(40);
    let words: Vec<_> = (0..count)
        .map(|_| WORDS[stream.below(WORDS.len() as u64) as usize])
        .collect();
    format!("<p>{}.</p>\n", words.join(" "))
}

/// Bytes that look like a JPEG file to whoever sniffs its ends, and do not compress.
pub fn image(seed: u64, length: usize, name: &str) -> Vec<u8> {
    const START: &[u8] = b"\xff\xd8\xff\xe0\x00\x10JFIF\x00\x01\x01\x00\x00\x01\x00\x01\x00\x00";
    const END: &[u8] = b"\xff\xd9";
    assert!(
        length >= START.len() + END.len(),
        "an image has two ends: {length}"
    );
    let mut stream = Stream::new(seed, name);
    let mut image = START.to_vec();
    while image.len() < length {
        image.extend_from_slice(&stream.bits().to_le_bytes());
    }
    image.truncate(length - END.len());
    image.extend_from_slice(END);
    image
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};
    use sha2::{Digest, Sha256};

    fn check_hash(data: &[u8], expected: &Expect) {
        let hash = Sha256::digest(data);
        let short = u64::from_be_bytes(hash[..8].try_into().unwrap());
        expected.assert_eq(&format!("{} bytes {short:016x}", data.len()));
    }

    #[test]
    fn data_of_a_seed_never_changes() {
        check_hash(
            &page(7, 22_016, &["a.jpg"]),
            &expect!["22016 bytes cfba0cf06fbb7403"],
        );
        check_hash(
            &image(7, 25_600, "a.jpg"),
            &expect!["25600 bytes 6c64e037053d8256"],
        );
        check_hash(
            &image(8, 25_600, "a.jpg"),
            &expect!["25600 bytes 03127d81e6d15187"],
        );
    }

    #[test]
    fn the_generator_is_the_published_one() {
        // First outputs of SplitMix64 for seed 1234567, from the authors' C code.
        let mut stream = Stream { state: 1_234_567 };
        assert_eq!(stream.bits(), 6_457_827_717_110_365_317);
        assert_eq!(stream.bits(), 3_203_168_211_198_807_973);
    }

    #[test]
    fn two_images_of_a_seed_differ() {
        assert_ne!(image(7, 1000, "a.jpg"), image(7, 1000, "b.jpg"));
    }

    #[test]
    fn a_page_has_its_exact_length_and_its_images() {
        for length in 1000..1400 {
            let page = String::from_utf8(page(1, length, &["a.jpg", "b.jpg"])).unwrap();
            assert_eq!(page.len(), length);
            assert!(page.contains("b.jpg") && page.ends_with("</body></html>\n"));
        }
    }
}
