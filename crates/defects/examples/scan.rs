//! Prints the defects that logs report: `cargo run --release -p bakeoff-defects --example scan -- console.log ..`.

use std::fs::File;
use std::io::{self, Read};
use std::time::Instant;

fn main() -> io::Result<()> {
    for path in std::env::args().skip(1) {
        let start = Instant::now();
        let mut reader = defects::Reader::new();
        let mut file = File::open(&path)?;
        let mut buffer = vec![0; 64 << 10];
        let mut bytes = 0;
        loop {
            let length = file.read(&mut buffer)?;
            if length == 0 {
                break;
            }
            bytes += length;
            reader.feed(&buffer[..length]);
        }
        reader.finish();
        let (took, lines) = (start.elapsed(), reader.lines());
        println!("{path}: {lines} lines, {bytes} bytes, {took:.2?}");
        for defect in reader.defects() {
            let (kind, severity) = (defect.kind.name(), defect.severity.name());
            println!(
                "  {severity:10} {kind:20} {} x{} line {}",
                defect.top, defect.count, defect.first.line
            );
        }
    }
    Ok(())
}
