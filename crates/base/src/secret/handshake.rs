//! Controller and agent prove to each other over a connection that they know the secret of one boot.
//!
//! ```text
//! agent:       bakeoff-agent 1 NONCE
//! controller:  NONCE HMAC
//! agent:       HMAC
//! ```
//! What follows is neither encrypted nor signed: the network between them must be trusted.

use std::io::{Read, Write};

use anyhow::{Context, Result, bail};

use crate::secret::{Secret, Side, nonce};

/// First words of an agent's first line; the number is raised when the lines change.
const GREETING: &str = "bakeoff-agent 1 ";

/// Longest line.
pub const LINE_BYTES: usize = 256;

/// The agent's first line, with a number that it uses once.
pub fn greeting(own: &str) -> String {
    format!("{GREETING}{own}\n")
}

/// The agent's answer to the line of whoever has dialled; afterwards the stream is the conversation's.
///
/// # Errors
/// It is no proof.
pub fn answer(secret: &Secret, own: &str, line: &[u8]) -> Result<String> {
    let line = std::str::from_utf8(line).context("not a line of text")?;
    let (theirs, proof) = line.split_once(' ').unwrap_or_default();
    let nonces = [own, theirs];
    if !secret.proves(Side::Controller, nonces, proof) {
        bail!("whoever dialled does not know the secret of this boot");
    }
    Ok(format!("{}\n", secret.proof(Side::Agent, nonces)))
}

/// The controller's part; afterwards the stream is the conversation's.
pub fn as_controller(stream: &mut (impl Read + Write), secret: &Secret) -> Result<()> {
    let line = hear(stream)?;
    let Some(theirs) = line.strip_prefix(GREETING) else {
        bail!("what answers is no agent of bakeoff's");
    };
    let own = nonce()?;
    let nonces = [theirs, own.as_str()];
    let proof = secret.proof(Side::Controller, nonces);
    say(stream, &format!("{own} {proof}"))?;
    // An agent that does not believe it hangs up.
    let proof = hear(stream).context("the agent refuses the secret of this boot")?;
    if !secret.proves(Side::Agent, nonces, &proof) {
        bail!("the agent does not know the secret of this boot");
    }
    Ok(())
}

fn say(stream: &mut impl Write, line: &str) -> Result<()> {
    let line = format!("{line}\n");
    stream.write_all(line.as_bytes()).context("gone")
}

/// Reads a line and not a byte more: what follows it is not the handshake's.
fn hear(stream: &mut impl Read) -> Result<String> {
    let mut line = Vec::new();
    let mut byte = [0];
    while line.len() < LINE_BYTES {
        stream.read_exact(&mut byte).context("silent")?;
        match byte {
            [b'\n'] => return String::from_utf8(line).context("not a line of text"),
            [byte] => line.push(byte),
        }
    }
    bail!("line too long")
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;
    use std::thread;

    use super::*;

    fn meet(agent: &str, controller: &str) -> [Result<()>; 2] {
        let (mut one, mut other) = UnixStream::pair().unwrap();
        let agent = Secret::of(agent);
        let end = thread::spawn(move || -> Result<()> {
            let own = nonce()?;
            one.write_all(greeting(&own).as_bytes())?;
            let line = hear(&mut one)?;
            let answer = answer(&agent, &own, line.as_bytes())?;
            Ok(one.write_all(answer.as_bytes())?)
        });
        let controller = as_controller(&mut other, &Secret::of(controller));
        [end.join().unwrap(), controller]
    }

    #[test]
    fn who_knows_the_secret_is_let_in_and_others_are_not() {
        let [agent, controller] = meet("of this boot", "of this boot");
        agent.unwrap();
        controller.unwrap();
        let [agent, controller] = meet("of this boot", "of the one before");
        let why = agent.unwrap_err().to_string();
        assert_eq!(why, "whoever dialled does not know the secret of this boot");
        let why = controller.unwrap_err().to_string();
        assert_eq!(why, "the agent refuses the secret of this boot");
    }

    #[test]
    fn what_is_no_agent_is_told_apart() {
        let (mut one, mut other) = UnixStream::pair().unwrap();
        one.write_all(b"SSH-2.0-OpenSSH_9.2\r\n").unwrap();
        let why = as_controller(&mut other, &Secret::of("any")).unwrap_err();
        assert_eq!(why.to_string(), "what answers is no agent of bakeoff's");
    }
}
