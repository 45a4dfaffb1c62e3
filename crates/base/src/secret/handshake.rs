//! Controller and agent prove to each other over a connection that they know the secret of a boot.
//!
//! ```text
//! agent:       bakeoff-agent 1 NONCE
//! controller:  NONCE HMAC
//! agent:       HMAC
//! ```
//! The traffic that follows is neither encrypted nor signed, so the network between them must be trusted.

use std::io::{Read, Write};

use anyhow::{Context, Result, bail};

use crate::secret::{Secret, Side, nonce};

/// First words of an agent's first line; the number grows with each change of the lines.
const GREETING: &str = "bakeoff-agent 1 ";

/// Longest line, in bytes.
pub const LINE_BYTES: usize = 256;

/// The agent's first line, with the agent's nonce.
pub fn greeting(nonce: &str) -> String {
    format!("{GREETING}{nonce}\n")
}

/// The agent's answer to the controller's line; the handshake is then complete.
///
/// # Errors
/// The line is not a valid proof.
pub fn answer(secret: &Secret, agent_nonce: &str, line: &[u8]) -> Result<String> {
    let line = std::str::from_utf8(line).context("not a line of text")?;
    let (controller_nonce, proof) = line.split_once(' ').unwrap_or_default();
    let nonces = [agent_nonce, controller_nonce];
    if !secret.proves(Side::Controller, nonces, proof) {
        bail!("whoever dialled does not know the secret of this boot");
    }
    Ok(format!("{}\n", secret.proof(Side::Agent, nonces)))
}

/// The controller's part of the handshake.
pub fn as_controller(stream: &mut (impl Read + Write), secret: &Secret) -> Result<()> {
    let line = read_line(stream)?;
    let Some(agent_nonce) = line.strip_prefix(GREETING) else {
        bail!("what answers is no agent of bakeoff's");
    };
    let controller_nonce = nonce()?;
    let nonces = [agent_nonce, controller_nonce.as_str()];
    let proof = secret.proof(Side::Controller, nonces);
    write_line(stream, &format!("{controller_nonce} {proof}"))?;
    // An agent that rejects the proof closes the connection.
    let proof = read_line(stream).context("the agent refuses the secret of this boot")?;
    if !secret.proves(Side::Agent, nonces, &proof) {
        bail!("the agent does not know the secret of this boot");
    }
    Ok(())
}

fn write_line(stream: &mut impl Write, line: &str) -> Result<()> {
    let line = format!("{line}\n");
    stream.write_all(line.as_bytes()).context("gone")
}

/// Reads one line and not a byte more, because later bytes do not belong to the handshake.
fn read_line(stream: &mut impl Read) -> Result<String> {
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
        let (mut agent_end, mut controller_end) = UnixStream::pair().unwrap();
        let agent = Secret::of(agent);
        let agent_thread = thread::spawn(move || -> Result<()> {
            let agent_nonce = nonce()?;
            agent_end.write_all(greeting(&agent_nonce).as_bytes())?;
            let line = read_line(&mut agent_end)?;
            let answer = answer(&agent, &agent_nonce, line.as_bytes())?;
            Ok(agent_end.write_all(answer.as_bytes())?)
        });
        let controller = as_controller(&mut controller_end, &Secret::of(controller));
        [agent_thread.join().unwrap(), controller]
    }

    #[test]
    fn only_peers_that_know_the_secret_are_accepted() {
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
    fn another_service_is_recognized() {
        let (mut agent_end, mut controller_end) = UnixStream::pair().unwrap();
        agent_end.write_all(b"SSH-2.0-OpenSSH_9.2\r\n").unwrap();
        let why = as_controller(&mut controller_end, &Secret::of("any")).unwrap_err();
        assert_eq!(why.to_string(), "what answers is no agent of bakeoff's");
    }
}
