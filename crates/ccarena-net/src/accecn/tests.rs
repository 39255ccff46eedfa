use proptest::prelude::*;

use super::*;

const MSS: u32 = 1448;

#[test]
fn ends_agree_on_the_most_that_both_can() {
    use Feedback::{Accurate, Classic, None};
    // RFC 9768 table 2: client A, server B, SYN and SYN/ACK as AE CWR ECE, feedback of A.
    for (asked, given, flags, answer, expected) in [
        (Accurate, Accurate, 0b111, 0b010, Accurate),
        (Accurate, Classic, 0b111, 0b001, Classic),
        (Accurate, None, 0b111, 0b000, None),
        (Classic, Accurate, 0b011, 0b001, Classic),
        (Classic, Classic, 0b011, 0b001, Classic),
        (Classic, None, 0b011, 0b000, None),
        (None, Accurate, 0b000, 0b000, None),
    ] {
        assert_eq!((syn(asked), syn_ack(flags, given), agreed(asked, given)), (flags, answer, expected));
    }
    // Any other combination counts as a request for AccECN (§3.1.2).
    assert_eq!(syn_ack(0b101, Accurate), 0b010);
}

#[test]
fn counters_begin_where_the_rfc_says() {
    let received = ReceiverCounters::default();
    assert_eq!(received.ace(), 0b101);
    assert_eq!(received.option().counters, [Some(1), Some(0), Some(1)]);
    let mut bytes = [0; OPTION_BYTES];
    assert_eq!(received.option().write(OPTION_BYTES, &mut bytes), 11);
    assert_eq!(bytes, [174, 11, 0, 0, 1, 0, 0, 0, 0, 0, 1]);
}

#[test]
fn orders_and_lengths_are_read() {
    let order0 = [172, 11, 0, 0, 7, 0, 0, 8, 0, 0, 9];
    assert_eq!(AccEcnOption::read(&order0).unwrap().counters, [Some(9), Some(8), Some(7)]);
    let short = [174, 8, 0, 0, 9, 0, 0, 8];
    assert_eq!(AccEcnOption::read(&short).unwrap().counters, [Some(9), Some(8), None]);
    assert_eq!(AccEcnOption::read(&[174, 2]).unwrap(), AccEcnOption::default());
    for wrong in [&[173, 2][..], &[174], &[174, 1, 0], &[174, 9, 0, 0, 1], &[]] {
        assert_eq!(AccEcnOption::read(wrong), None, "{wrong:?}");
    }
}

/// A packet on its way: code point, payload; and whether the acknowledgement after it arrives, and has the option.
type Step = (u8, bool, bool);

/// Marks of a receiver and those that its sender counted, after acknowledgements of every second packet.
fn feed(steps: &[Step], sizes: impl Fn(usize) -> u32) -> (u32, u32, u32) {
    let (mut received, mut told) = (ReceiverCounters::default(), SenderCounters::default());
    let (mut marked, mut counted, mut unseen, mut lost) = (0, 0, (0, 0), 0);
    for (index, &(code, arrives, with_option)) in steps.iter().enumerate() {
        let ecn = if code == 0 { Ecn::Ce } else { Ecn::Ect1 };
        received.add(ecn, sizes(index));
        marked += u32::from(ecn == Ecn::Ce);
        unseen = (unseen.0 + 1, unseen.1 + u64::from(sizes(index)));
        if !(arrives || index + 1 == steps.len()) {
            lost += 1;
            continue;
        }
        let mut bytes = [0; OPTION_BYTES];
        let length = received.option().write(if with_option { OPTION_BYTES } else { 0 }, &mut bytes);
        let option = AccEcnOption::read(&bytes[..length]);
        assert_eq!(option.is_some(), with_option);
        counted += told.take(received.ace(), option.as_ref(), unseen.0, unseen.1, MSS);
        unseen = (0, 0);
        // However many times the field wrapped, the sender's copy agrees with it.
        assert_eq!((told.packets & ACE) as u8, received.ace());
    }
    (marked, counted, lost)
}

fn steps(marks: u8, arriving: f64, options: f64) -> impl Strategy<Value = Vec<Step>> {
    prop::collection::vec((0..marks, prop::bool::weighted(arriving), prop::bool::weighted(options)), 1..400)
}

proptest! {
    #[test]
    fn no_mark_is_lost_with_acknowledgements(steps in steps(4, 0.2, 0.5)) {
        let (marked, counted, _) = feed(&steps, |_| MSS);
        prop_assert!(counted >= marked, "{counted} of {marked}: the safest estimate is no less (A.2.1)");
    }

    #[test]
    fn with_the_option_the_count_is_exact(steps in steps(4, 0.2, 1.0)) {
        let (marked, counted, _) = feed(&steps, |_| MSS);
        prop_assert_eq!(counted, marked);
    }

    #[test]
    fn without_lost_acknowledgements_the_field_alone_is_exact(steps in steps(2, 1.0, 0.0)) {
        let (marked, counted, lost) = feed(&steps, |index| if index % 3 == 0 { 100 } else { MSS });
        prop_assert_eq!((marked, lost), (counted, 0));
    }

    #[test]
    fn any_bytes_are_an_option_or_none(bytes in prop::collection::vec(any::<u8>(), 0..16)) {
        if let Some(option) = AccEcnOption::read(&bytes) {
            let mut written = [0; OPTION_BYTES];
            let length = option.write(OPTION_BYTES, &mut written);
            let first = option.counters.iter().take_while(|counter| counter.is_some()).count();
            prop_assert_eq!(length, 2 + 3 * first);
            let again = AccEcnOption::read(&written[..length]);
            prop_assert_eq!(&again.map(|o| o.counters[..first].to_vec()), &Some(option.counters[..first].to_vec()));
        }
    }

    #[test]
    fn written_options_are_read(counters in any::<[u32; 3]>(), room in 0_usize..16) {
        let option = AccEcnOption { counters: counters.map(|c| Some(c & COUNTER)) };
        let mut bytes = [0; OPTION_BYTES];
        let length = option.write(room, &mut bytes);
        prop_assert!(length <= room);
        let fields = length.saturating_sub(2) / 3;
        let read = AccEcnOption::read(&bytes[..length]).unwrap_or_default();
        prop_assert_eq!(&read.counters[..fields], &option.counters[..fields]);
        prop_assert!(read.counters[fields..].iter().all(Option::is_none));
    }
}
