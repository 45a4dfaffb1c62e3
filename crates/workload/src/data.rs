//! Seeded data. They must never change, because their hashes are compared between arms and runs.

use record::prng::{SplitMix64, fnv1a};

/// A generator for a seed and a purpose. Different purposes get different numbers.
pub fn stream(seed: u64, purpose: &str) -> SplitMix64 {
    SplitMix64::new(seed ^ fnv1a(purpose.as_bytes()))
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
    let mut stream = stream(seed, "page");
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
    // A comment fills the rest after the last paragraph.
    let filling = ".".repeat(end - page.len());
    page.extend(["<!--", &filling, "-->\n", END]);
    assert_eq!(page.len(), length, "the comment fills the rest exactly");
    page.into_bytes()
}

fn paragraph(stream: &mut SplitMix64) -> String {
    let count = 20 + stream.below(40);
    let words: Vec<_> = (0..count)
        .map(|_| WORDS[stream.below(WORDS.len() as u64) as usize])
        .collect();
    format!("<p>{}.</p>\n", words.join(" "))
}

/// Incompressible bytes with the start and end of a JPEG file.
pub fn image(seed: u64, length: usize, name: &str) -> Vec<u8> {
    const START: &[u8] = b"\xff\xd8\xff\xe0\x00\x10JFIF\x00\x01\x01\x00\x00\x01\x00\x01\x00\x00";
    const END: &[u8] = b"\xff\xd9";
    assert!(
        length >= START.len() + END.len(),
        "an image has two ends: {length}"
    );
    let mut stream = stream(seed, name);
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
        for (data, expected) in [
            (
                page(7, 22_016, &["a.jpg"]),
                expect!["22016 bytes cfba0cf06fbb7403"],
            ),
            (
                image(7, 25_600, "a.jpg"),
                expect!["25600 bytes 6c64e037053d8256"],
            ),
            (
                image(8, 25_600, "a.jpg"),
                expect!["25600 bytes 03127d81e6d15187"],
            ),
        ] {
            check_hash(&data, &expected);
        }
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
