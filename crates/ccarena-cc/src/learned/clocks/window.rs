//! Periods of one window of data.

use super::{Clock, ClockEntry, Length};

/// Ends with an acknowledgement.
pub const WINDOW: ClockEntry = ClockEntry {
    name: "window",
    doc: "once per window of data: from a mark at the next byte to be sent until that byte is acknowledged",
    source: "Kheirkhah et al., ACCT, section II-B",
    options: &[],
    kernel: true,
    build: |_| Box::new(Window),
};

struct Window;

impl Clock for Window {
    fn first(&self) -> Length {
        Length::Window
    }
}
