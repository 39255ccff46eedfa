//! Controller for tests that records its calls.

use ccarena_cc::{AckInfo, Bytes, Controller, LossInfo, PacketTracker, Rate, SentInfo};

#[derive(Default)]
pub(crate) struct Recorder {
    pub(crate) tracks: bool,
    pub(crate) pacing: Option<Rate>,
    pub(crate) acks: Vec<AckInfo>,
    pub(crate) losses: Vec<LossInfo>,
    pub(crate) timeouts: Vec<LossInfo>,
    pub(crate) sent: Vec<SentInfo>,
    pub(crate) acked_numbers: Vec<u64>,
    pub(crate) lost_numbers: Vec<u64>,
}

impl Controller for Recorder {
    fn on_ack(&mut self, ack: &AckInfo) {
        self.acks.push(*ack);
    }

    fn pacing_rate(&self) -> Option<Rate> {
        self.pacing
    }

    fn on_loss(&mut self, loss: &LossInfo) {
        self.losses.push(*loss);
    }

    fn on_timeout(&mut self, loss: &LossInfo) {
        self.timeouts.push(*loss);
    }

    fn on_sent(&mut self, sent: &SentInfo) {
        self.sent.push(*sent);
    }

    fn packet_tracker(&mut self) -> Option<&mut dyn PacketTracker> {
        if self.tracks { Some(self) } else { None }
    }

    fn window(&self) -> Bytes {
        Bytes(10_000)
    }
}

impl PacketTracker for Recorder {
    fn on_packet_acked(&mut self, number: u64) {
        self.acked_numbers.push(number);
    }

    fn on_packet_lost(&mut self, number: u64) {
        self.lost_numbers.push(number);
    }
}
