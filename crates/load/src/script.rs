//! Scripts of browser sessions: what a visitor does, page by page.
//!
//! ```text
//! visit /index.html           # a page
//! fetch /logo.png /style.css  # parts of it, one after the other on the same connection
//! think 1s to 3s              # a random time between the two; or: think 2s
//! maybe 30% buy               # three of ten visitors continue at the place named buy
//! leave                       # the others end here
//! place buy
//! post /cart item=7&count=1   # a form
//! expect 302                  # status of the previous request, 200 by default
//! visit /thanks
//! go shop                     # continue at a place
//! ```
//! Paths may contain blanks, forms may not. A session ends at `leave` or at the end of the script.
//! The next session is another visitor, with a new connection and no cookies. A session uses one
//! connection. Cookies are kept and sent back, whatever their path.

use base::input::problem::{Problem, Problems};
use base::input::units;

use crate::clock;
use crate::exchange::Exchange;
use crate::expect::{Content, Expect};
use crate::prng::Prng;
use crate::url;

/// A script of sessions.
#[derive(Debug, Clone, PartialEq)]
pub struct Script {
    instructions: Vec<Instruction>,
    exchanges: Vec<Exchange>,
    /// Positions of the visits among which `Instruction::Draw` chooses.
    starts: Vec<usize>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Instruction {
    /// Continues at a random visit, all equally likely.
    Draw,
    /// Sends the exchange with this index.
    Request(usize),
    /// Waits for a random time between these two, in nanoseconds.
    Think(u64, u64),
    /// Continues at an instruction with this probability.
    Branch(f64, usize),
    /// Continues at an instruction.
    Jump(usize),
    /// Ends the session.
    End,
}

/// The next request of a visitor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NextRequest {
    /// Index of the exchange.
    pub(crate) request: usize,
    /// Index of the following instruction.
    pub(crate) next_position: usize,
    /// Think time before the request.
    pub(crate) think_ns: u64,
    /// Whether the request is another visitor's.
    pub(crate) is_new_session: bool,
}

impl Script {
    /// Reads a script. `file` is its name in messages. The error has all mistakes with line and
    /// column.
    pub fn read(file: &str, text: &str) -> Result<Self, Problems> {
        let mut parser = Parser::new(file);
        for (index, line) in text.lines().enumerate() {
            parser.line(index + 1, line);
        }
        parser.finish()
    }

    /// A script without text: each visitor makes one of these visits, chosen at random. There must
    /// be a visit, and each must have an exchange.
    pub fn from_visits(visits: Vec<Vec<Exchange>>) -> Self {
        assert!(
            !visits.is_empty() && visits.iter().all(|visit| !visit.is_empty()),
            "a visit without a request would loop for ever"
        );
        let mut script = Self {
            instructions: vec![Instruction::Draw],
            exchanges: Vec::new(),
            starts: Vec::new(),
        };
        for visit in visits {
            script.starts.push(script.instructions.len());
            for exchange in visit {
                let request = Instruction::Request(script.exchanges.len());
                script.instructions.push(request);
                script.exchanges.push(exchange);
            }
            script.instructions.push(Instruction::End);
        }
        script
    }

    /// Sets the expected response to all requests of a path.
    pub fn expect(&mut self, path: &str, expect: &Expect) {
        for exchange in &mut self.exchanges {
            if exchange.path == path {
                exchange.expect = expect.clone();
            }
        }
    }

    /// Whether visitors wait between requests.
    pub fn has_think_times(&self) -> bool {
        let mut instructions = self.instructions.iter();
        instructions.any(|instruction| matches!(instruction, Instruction::Think(..)))
    }

    /// Whether every request has an expected body.
    pub fn checks_content(&self) -> bool {
        let mut exchanges = self.exchanges.iter();
        exchanges.all(|exchange| exchange.expect.content != Content::Any)
    }

    pub(crate) fn exchanges(&self) -> &[Exchange] {
        &self.exchanges
    }

    /// The next request of a visitor at `position`.
    pub(crate) fn next(&self, position: usize, prng: &mut Prng) -> NextRequest {
        let (mut position, mut think_ns, mut is_new_session) = (position, 0, false);
        loop {
            let next_position = position + 1;
            position = match self.instructions.get(position) {
                Some(Instruction::Draw) => {
                    self.starts[prng.below(self.starts.len() as u64) as usize]
                }
                Some(Instruction::Request(request)) => {
                    let request = *request;
                    return NextRequest {
                        request,
                        next_position,
                        think_ns,
                        is_new_session,
                    };
                }
                Some(Instruction::Think(low_ns, high_ns)) => {
                    think_ns += prng.between(*low_ns, *high_ns);
                    next_position
                }
                Some(Instruction::Branch(share, place)) if prng.unit() <= *share => *place,
                Some(Instruction::Branch(..)) => next_position,
                Some(Instruction::Jump(place)) => *place,
                Some(Instruction::End) | None => {
                    is_new_session = true;
                    0
                }
            };
        }
    }
}

/// The state of reading a script.
struct Parser<'t> {
    file: &'t str,
    instructions: Vec<Instruction>,
    exchanges: Vec<Exchange>,
    /// Indices of the last line's exchanges.
    last: std::ops::Range<usize>,
    places: Vec<(&'t str, usize)>,
    /// Jump instructions and their places, resolved at the end.
    jumps: Vec<(usize, Word<'t>)>,
    problems: Vec<Problem>,
}

/// A word and its position.
#[derive(Debug, Clone, Copy)]
struct Word<'t> {
    text: &'t str,
    line: usize,
    column: usize,
}

impl Word<'_> {
    fn is_path(&self) -> bool {
        self.text.starts_with('/')
    }
}

const COMMANDS: &str = "write visit, fetch, post, expect, think, maybe, go, place or leave";

const FORMS: [&str; 9] = [
    "visit /page",
    "fetch /one /two",
    "post /page name=value",
    "expect 200",
    "think 1s to 3s",
    "maybe 30% place",
    "go place",
    "place name",
    "leave",
];

impl<'t> Parser<'t> {
    fn new(file: &'t str) -> Self {
        Self {
            file,
            instructions: Vec::new(),
            exchanges: Vec::new(),
            last: 0..0,
            places: Vec::new(),
            jumps: Vec::new(),
            problems: Vec::new(),
        }
    }

    fn line(&mut self, number: usize, line: &'t str) {
        let line = url::without_comment(line);
        let words = words(number, line);
        let Some((command, rest)) = words.split_first() else {
            return;
        };
        match (command.text, rest) {
            ("visit", [_, more @ ..]) if !more.iter().any(Word::is_path) => {
                self.request(&paths(line, rest), "GET", "");
            }
            ("fetch", [_, ..]) => self.request(&paths(line, rest), "GET", ""),
            ("post", [path, form]) => self.request(&[*path], "POST", form.text),
            ("post", [path @ .., form]) if form.text.contains('=') && !path.is_empty() => {
                self.request(&[span(line, path)], "POST", form.text);
            }
            ("post", [_, ..]) => self.request(&[span(line, rest)], "POST", ""),
            ("expect", [status]) => self.expect(*status, None),
            ("expect", [status, length, hash]) => self.expect(*status, Some((*length, *hash))),
            ("think", [time]) => self.think(*time, *time),
            ("think", [low, Word { text: "to", .. }, high]) => self.think(*low, *high),
            ("maybe", [share, place]) => self.maybe(*share, *place),
            ("go", [place]) => self.jump(Instruction::Jump(0), *place),
            ("place", [name]) => self.place(*name),
            ("leave", []) => self.instructions.push(Instruction::End),
            (known, _) => match FORMS
                .iter()
                .find(|form| form.split(' ').next() == Some(known))
            {
                Some(form) => {
                    let remedy = format!("write it like: {form}");
                    self.note(*command, "wrong number of words after", &remedy);
                }
                None => self.note(*command, "unknown word", COMMANDS),
            },
        }
    }

    fn request(&mut self, paths: &[Word<'t>], method: &str, form: &str) {
        let first = self.exchanges.len();
        for path in paths {
            if !path.is_path() {
                self.note(*path, "not a path", "begin it with /");
            }
            self.instructions
                .push(Instruction::Request(self.exchanges.len()));
            let Ok(encoded) = url::encode(path.text) else {
                self.note(*path, "control character in a path", "remove it");
                continue;
            };
            let mut exchange = Exchange::get(encoded, Expect::status(200));
            exchange.method = method.into();
            exchange.body = form.as_bytes().to_vec();
            if !form.is_empty() {
                let kind = "application/x-www-form-urlencoded";
                exchange.headers.push(("Content-Type".into(), kind.into()));
            }
            self.exchanges.push(exchange);
        }
        self.last = first..self.exchanges.len();
    }

    fn expect(&mut self, status: Word<'t>, content: Option<(Word<'t>, Word<'t>)>) {
        if self.last.is_empty() {
            return self.note(
                status,
                "nothing to expect from",
                "write it after a visit, fetch or post",
            );
        }
        let code = status.text.parse().ok();
        let Some(code) = code.filter(|code| (100..600).contains(code)) else {
            return self.note(status, "not a status", "write it like 200");
        };
        let mut expect = Expect::status(code);
        if let Some((length, hash)) = content {
            let Ok(bytes) = length.text.parse() else {
                return self.note(length, "not a length in bytes", "write it like 21500");
            };
            let Some(sha256) = parse_hash(hash.text) else {
                return self.note(hash, "not a SHA-256", "write it as 64 hexadecimal digits");
            };
            expect.content = Expect::hash(bytes, sha256).content;
        }
        for exchange in &mut self.exchanges[self.last.clone()] {
            exchange.expect = expect.clone();
        }
    }

    fn think(&mut self, low: Word<'t>, high: Word<'t>) {
        let (low_time, high_time) = (units::duration(low.text), units::duration(high.text));
        match (low_time, high_time) {
            (Ok(from), Ok(to)) if from <= to => {
                self.instructions
                    .push(Instruction::Think(clock::ns(from), clock::ns(to)));
            }
            (Ok(_), Ok(_)) => self.note(
                high,
                "shorter than the time before it",
                "write the shorter one first",
            ),
            (Err(_), _) => self.note(low, "not a duration", "write it like 500ms or 2s"),
            (_, Err(_)) => self.note(high, "not a duration", "write it like 500ms or 2s"),
        }
    }

    fn maybe(&mut self, share: Word<'t>, place: Word<'t>) {
        match units::share(share.text) {
            Ok(chance) if (0.0..=1.0).contains(&chance) => {
                self.jump(Instruction::Branch(chance, 0), place);
            }
            Ok(_) | Err(_) => self.note(share, "not a share", "write it like 30%"),
        }
    }

    fn jump(&mut self, position: Instruction, place: Word<'t>) {
        self.jumps.push((self.instructions.len(), place));
        self.instructions.push(position);
    }

    fn place(&mut self, name: Word<'t>) {
        if self.places.iter().any(|(known, _)| *known == name.text) {
            self.note(name, "place named twice", "give one of them another name");
        }
        self.places.push((name.text, self.instructions.len()));
    }

    fn note(&mut self, word: Word<'_>, what: &str, remedy: &str) {
        self.problems.push(Problem {
            file: self.file.into(),
            line: word.line,
            what: format!("column {}: {what}: {}", word.column, word.text),
            remedy: remedy.into(),
        });
    }

    fn finish(mut self) -> Result<Script, Problems> {
        for (position, place) in std::mem::take(&mut self.jumps) {
            let known = self.places.iter().find(|(name, _)| *name == place.text);
            let Some((_, target)) = known.copied() else {
                self.note(place, "unknown place", "write a line like: place buy");
                continue;
            };
            match &mut self.instructions[position] {
                Instruction::Branch(_, to) | Instruction::Jump(to) => *to = target,
                Instruction::Draw
                | Instruction::Request(_)
                | Instruction::Think(..)
                | Instruction::End => {
                    unreachable!("only jumps are noted")
                }
            }
            if self.loops_without_request(position) {
                self.note(
                    place,
                    "goes round without a request",
                    "put a visit on the way",
                );
            }
        }
        let is_idle =
            || (0..=self.instructions.len()).any(|position| self.loops_without_request(position));
        if self.problems.is_empty() && is_idle() {
            let start = Word {
                text: "nothing",
                line: 0,
                column: 1,
            };
            self.note(
                start,
                "a session may ask for",
                "put a visit on every way through the script",
            );
        }
        if !self.problems.is_empty() {
            self.problems.sort_by_key(|problem| problem.line);
            return Err(Problems(self.problems));
        }
        Ok(Script {
            instructions: self.instructions,
            exchanges: self.exchanges,
            starts: Vec::new(),
        })
    }

    /// Whether a visitor can return to an instruction without sending a request.
    fn loops_without_request(&self, start: usize) -> bool {
        let (mut seen, mut pending) = (vec![false; self.instructions.len() + 1], vec![start]);
        while let Some(position) = pending.pop() {
            let next: &[usize] = match self.instructions.get(position) {
                // Only `from_visits` makes draws, and each visit has a request.
                Some(Instruction::Request(_) | Instruction::Draw) => &[],
                Some(Instruction::Think(..)) => &[position + 1],
                Some(Instruction::Branch(_, place)) => &[position + 1, *place],
                Some(Instruction::Jump(place)) => &[*place],
                // The next visitor starts at the beginning.
                Some(Instruction::End) | None => &[0],
            };
            for position in next {
                if *position == start {
                    return true;
                }
                if !std::mem::replace(&mut seen[*position], true) {
                    pending.push(*position);
                }
            }
        }
        false
    }
}

fn words(line: usize, text: &str) -> Vec<Word<'_>> {
    let place = |word: &str| word.as_ptr() as usize - text.as_ptr() as usize;
    let column = |word: &str| text[..place(word)].chars().count() + 1;
    let words = text.split_whitespace().map(|word| Word {
        text: word,
        line,
        column: column(word),
    });
    words.collect()
}

/// The paths among these words. A word without a leading `/` continues the path before it, which
/// contains a blank.
fn paths<'t>(line: &'t str, words: &[Word<'t>]) -> Vec<Word<'t>> {
    let paths = words.chunk_by(|_, next| !next.is_path());
    paths.map(|words| span(line, words)).collect()
}

/// Joins several words of a line, including the blanks between them.
fn span<'t>(line: &'t str, words: &[Word<'t>]) -> Word<'t> {
    let place = |word: &Word<'_>| word.text.as_ptr() as usize - line.as_ptr() as usize;
    let (first, last) = (words[0], words[words.len() - 1]);
    Word {
        text: &line[place(&first)..place(&last) + last.text.len()],
        ..first
    }
}

fn parse_hash(text: &str) -> Option<[u8; 32]> {
    if text.len() != 64 || !text.is_ascii() {
        return None;
    }
    let mut hash = [0; 32];
    for (byte, pair) in hash.iter_mut().zip(text.as_bytes().chunks(2)) {
        *byte = u8::from_str_radix(str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(hash)
}

/// The cookies of one visitor.
#[derive(Debug, Clone, Default)]
pub(crate) struct CookieJar {
    cookies: Vec<(Vec<u8>, Vec<u8>)>,
}

impl CookieJar {
    /// Stores or deletes the cookie of a `Set-Cookie` field.
    pub(crate) fn set(&mut self, field: &[u8]) {
        let mut parts = field.split(|byte| *byte == b';').map(<[u8]>::trim_ascii);
        let pair = parts.next().unwrap_or_default();
        let Some(equals) = pair.iter().position(|byte| *byte == b'=') else {
            return;
        };
        let (name, value) = (&pair[..equals], &pair[equals + 1..]);
        self.cookies.retain(|(known, _)| known != name);
        if !parts.any(|part| part.eq_ignore_ascii_case(b"max-age=0")) {
            self.cookies.push((name.to_vec(), value.to_vec()));
        }
    }

    /// Removes all cookies.
    pub(crate) fn clear(&mut self) {
        self.cookies.clear();
    }

    /// Writes a request with an added `Cookie` field.
    pub(crate) fn write(&self, request: &[u8], head_bytes: usize, out: &mut Vec<u8>) {
        let (fields, rest) = request.split_at(head_bytes - 2);
        out.extend_from_slice(fields);
        for (index, (name, value)) in self.cookies.iter().enumerate() {
            out.extend_from_slice(if index == 0 { b"Cookie: " } else { b"; " });
            out.extend_from_slice(name);
            out.push(b'=');
            out.extend_from_slice(value);
        }
        if !self.cookies.is_empty() {
            out.extend_from_slice(b"\r\n");
        }
        out.extend_from_slice(rest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect as Snapshot, expect};

    fn check(text: &str, expected: &Snapshot) {
        let problems = Script::read("s.txt", text).unwrap_err();
        expected.assert_eq(&problems.to_string());
    }

    /// Paths of a slot's requests, with a bar between visitors.
    fn walk(text: &str, requests: usize) -> String {
        follow(&Script::read("s.txt", text).unwrap(), requests)
    }

    fn follow(script: &Script, requests: usize) -> String {
        let (mut position, mut prng, mut path) = (0, Prng::new(7, 7), String::new());
        for _ in 0..requests {
            let next = script.next(position, &mut prng);
            position = next.next_position;
            path += if next.is_new_session { " | " } else { " " };
            path += &script.exchanges[next.request].path;
        }
        path.trim_matches([' ', '|']).into()
    }

    #[test]
    fn a_session_follows_the_script_and_starts_again() {
        let script = "visit /a # the page\n\n# more\nfetch /b /c\nthink 1s\nvisit /d";
        assert_eq!(walk(script, 6), "/a /b /c /d | /a /b");
    }

    #[test]
    fn visits_are_drawn_equally_often_and_completed() {
        let visit = |paths: &[&str]| {
            let exchange = |path: &&str| Exchange::get(*path, Expect::status(200));
            paths.iter().map(exchange).collect()
        };
        let script = Script::from_visits(vec![visit(&["/a", "/b"]), visit(&["/c"])]);
        let walked = follow(&script, 30_000);
        let visits: Vec<_> = walked.split(" | ").collect();
        let first = visits.iter().filter(|visit| **visit == "/a /b").count();
        let (last, whole) = visits.split_last().unwrap();
        assert!(whole.iter().all(|visit| ["/a /b", "/c"].contains(visit)));
        assert!(["/a", "/a /b", "/c"].contains(last));
        let share = first as f64 / visits.len() as f64;
        assert!((share - 0.5).abs() < 0.02, "{share} made the first visit");
    }

    #[test]
    fn a_branch_is_taken_with_its_probability() {
        let script = "visit /a\nmaybe 30% buy\nleave\nplace buy\nvisit /b";
        let walked = walk(script, 10_000);
        let (visits, buys) = (walked.matches("/a").count(), walked.matches("/b").count());
        let share = buys as f64 / visits as f64;
        assert!((share - 0.3).abs() < 0.02, "{share} bought");
    }

    #[test]
    fn jumps_work_and_think_times_add_up() {
        assert_eq!(walk("visit /a\nplace x\nvisit /b\ngo x", 4), "/a /b /b /b");
        let script = Script::read("s", "visit /a\nthink 1s\nthink 1s to 2s\nvisit /b").unwrap();
        let think_ns = script.next(1, &mut Prng::new(1, 1)).think_ns;
        assert!(
            (2_000_000_000..=3_000_000_000).contains(&think_ns),
            "{think_ns}"
        );
    }

    #[test]
    fn paths_may_contain_blanks() {
        let script = "  visit /my page.html  # the page\r\nfetch /a  b /c d.css /e\n\tvisit\t/f\n";
        let walked = walk(script, 5);
        assert_eq!(walked, "/my%20page.html /a%20%20b /c%20d.css /e /f");
        let script = "post /a b x=1\npost /c d e\npost /f g\npost /h\npost /i j=2";
        let script = Script::read("s.txt", script).unwrap();
        let posts = script.exchanges().iter().map(|post| {
            let form = String::from_utf8(post.body.clone()).unwrap();
            format!("{} {form}", post.path)
        });
        let expected = ["/a%20b x=1", "/c%20d%20e ", "/f g", "/h ", "/i j=2"];
        assert_eq!(posts.collect::<Vec<_>>(), expected);
        check(
            "visit /a /b",
            &expect![
                "s.txt:1: column 1: wrong number of words after: visit (write it like: visit /page)"
            ],
        );
    }

    #[test]
    fn all_mistakes_are_reported_with_line_and_column() {
        check(
            "viist /a\nvisit a\n  think 1s to 1ms\nmaybe 300% x\ngo nowhere\nexpect 200 5 zz\nleave now",
            &expect![[r"
                s.txt:1: column 1: unknown word: viist (write visit, fetch, post, expect, think, maybe, go, place or leave)
                s.txt:2: column 7: not a path: a (begin it with /)
                s.txt:3: column 15: shorter than the time before it: 1ms (write the shorter one first)
                s.txt:4: column 7: not a share: 300% (write it like 30%)
                s.txt:5: column 4: unknown place: nowhere (write a line like: place buy)
                s.txt:6: column 14: not a SHA-256: zz (write it as 64 hexadecimal digits)
                s.txt:7: column 1: wrong number of words after: leave (write it like: leave)"]],
        );
    }

    #[test]
    fn a_script_without_requests_is_refused() {
        check(
            "visit /a\nplace x\nthink 1s\ngo x",
            &expect!["s.txt:4: column 4: goes round without a request: x (put a visit on the way)"],
        );
        check(
            "think 1s",
            &expect![
                "s.txt: column 1: a session may ask for: nothing (put a visit on every way through the script)"
            ],
        );
    }

    #[test]
    fn cookies_are_kept_replaced_and_deleted() {
        let mut jar = CookieJar::default();
        let mut sent = |fields: &[&str]| {
            for field in fields {
                jar.set(field.as_bytes());
            }
            let (request, mut out) = (b"GET / HTTP/1.1\r\nHost: x\r\n\r\nbody", Vec::new());
            jar.write(request, request.len() - 4, &mut out);
            String::from_utf8(out).unwrap()
        };
        assert_eq!(sent(&["nonsense"]), "GET / HTTP/1.1\r\nHost: x\r\n\r\nbody");
        let both = sent(&["a=1; Path=/; HttpOnly", "b=x=y"]);
        assert_eq!(
            both,
            "GET / HTTP/1.1\r\nHost: x\r\nCookie: a=1; b=x=y\r\n\r\nbody"
        );
        let less = sent(&["a=2", "b=; Max-Age=0"]);
        assert_eq!(less, "GET / HTTP/1.1\r\nHost: x\r\nCookie: a=2\r\n\r\nbody");
    }
}
