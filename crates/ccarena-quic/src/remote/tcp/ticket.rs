//! The first bytes of a TCP connection, which say what flow of what run it is: a mark and a ticket.
//!
//! The server gives tickets over the control connection, which is encrypted. A ticket admits one connection.

use ring::digest;
use ring::rand::{SecureRandom, SystemRandom};
use serde::{Deserialize, Serialize};

/// First bytes of every such connection.
const MARK: [u8; 8] = *b"ccarena\n";
/// Bytes of a ticket.
const SECRET: usize = 16;
/// Bytes of a preamble.
pub const PREAMBLE: usize = MARK.len() + SECRET;

/// Secret that admits a TCP connection to one flow of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Ticket([u8; SECRET]);

impl Ticket {
    /// A new ticket; none if the system has no random numbers.
    #[must_use]
    pub fn draw() -> Option<Self> {
        let mut secret = [0; SECRET];
        SystemRandom::new().fill(&mut secret).ok()?;
        Some(Self(secret))
    }

    /// Returns whether `other` is the same. The time that takes says nothing about either.
    #[must_use]
    pub fn is(&self, other: &Self) -> bool {
        let digest = |ticket: &Self| digest::digest(&digest::SHA256, &ticket.0);
        digest(self).as_ref() == digest(other).as_ref()
    }

    /// Returns the bytes with which a connection begins.
    #[must_use]
    pub fn preamble(&self) -> Vec<u8> {
        [&MARK[..], &self.0].concat()
    }
}

impl From<Ticket> for String {
    fn from(ticket: Ticket) -> Self {
        ticket.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

impl TryFrom<String> for Ticket {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let digits = text.bytes().map(|byte| char::from(byte).to_digit(16).map(|digit| digit as u8));
        let digits = digits.collect::<Option<Vec<u8>>>().unwrap_or_default();
        let bytes: Vec<u8> =
            digits.chunks(2).map(|pair| pair.iter().fold(0, |byte, digit| byte << 4 | digit)).collect();
        let secret = bytes.try_into().ok().filter(|_| digits.len() == 2 * SECRET);
        secret.map(Self).ok_or_else(|| format!("a ticket of other than {} hexadecimal digits", 2 * SECRET))
    }
}

/// Error of a connection that does not begin with [`MARK`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the connection does not begin as one of `ccarena remote run`; expected its mark and a ticket")]
pub struct NoMark;

/// Part of a preamble that has come.
#[derive(Clone, Debug, Default)]
pub struct Preamble {
    bytes: [u8; PREAMBLE],
    length: usize,
}

impl Preamble {
    /// Room for what is missing.
    pub fn room(&mut self) -> &mut [u8] {
        &mut self.bytes[self.length..]
    }

    /// Takes the first `count` bytes of the room as come; the ticket, once it is whole.
    ///
    /// # Errors
    /// At the first byte that no preamble has.
    pub fn came(&mut self, count: usize) -> Result<Option<Ticket>, NoMark> {
        self.length = self.length.saturating_add(count).min(PREAMBLE);
        let mark = self.length.min(MARK.len());
        if self.bytes[..mark] != MARK[..mark] {
            return Err(NoMark);
        }
        let secret = self.bytes.last_chunk().filter(|_| self.length == PREAMBLE);
        Ok(secret.map(|secret| Ticket(*secret)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Reads `bytes` in pieces of at most `piece`: what it was, and how much of it was read.
    fn read(bytes: &[u8], piece: usize) -> (Result<Option<Ticket>, NoMark>, usize) {
        let (mut preamble, mut at) = (Preamble::default(), 0);
        loop {
            let room = preamble.room();
            let count = room.len().min(piece).min(bytes.len() - at);
            room[..count].copy_from_slice(&bytes[at..at + count]);
            at += count;
            let found = preamble.came(count);
            if count == 0 || !matches!(found, Ok(None)) {
                return (found, at);
            }
        }
    }

    proptest! {
        #[test]
        fn a_ticket_is_read_from_any_pieces_and_nothing_behind_it(secret: [u8; SECRET], piece in 1_usize..40, more in prop::collection::vec(any::<u8>(), 0..40)) {
            let ticket = Ticket(secret);
            let bytes = [ticket.preamble(), more].concat();
            prop_assert_eq!(read(&bytes, piece), (Ok(Some(ticket.clone())), PREAMBLE));
            prop_assert_eq!(read(&bytes[..PREAMBLE - 1], piece).0, Ok(None));
            prop_assert_eq!(Ticket::try_from(String::from(ticket.clone())), Ok(ticket));
        }

        #[test]
        fn what_begins_otherwise_is_refused_at_once(at in 0..MARK.len(), other: u8, piece in 1_usize..40) {
            let mut bytes = Ticket([7; SECRET]).preamble();
            prop_assume!(bytes[at] != other);
            bytes[at] = other;
            prop_assert_eq!(read(&bytes, piece).0, Err(NoMark));
            prop_assert_eq!(read(&bytes[..=at], piece).0, Err(NoMark));
        }

        #[test]
        fn nothing_makes_it_panic(text in ".{0,40}", bytes in prop::collection::vec(any::<u8>(), 0..60), piece in 1_usize..60) {
            let _ = (Ticket::try_from(text), read(&bytes, piece));
            let _ = Preamble::default().came(usize::MAX);
        }
    }

    #[test]
    fn a_ticket_is_drawn_anew() {
        let (one, other) = (Ticket::draw().unwrap(), Ticket::draw().unwrap());
        assert!(one.is(&one.clone()) && !one.is(&other));
        assert!(Ticket::try_from("ab".to_owned()).unwrap_err().contains("32 hexadecimal digits"));
    }
}
