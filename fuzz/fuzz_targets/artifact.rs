//! A policy artifact is refused with an error, or acts.
#![no_main]

use ccarena_cc::policy::Policy;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(policy) = Policy::from_bytes(bytes) {
        let observation = vec![1.0; policy.spec().observation_len];
        let mut scratch = policy.scratch();
        let action = policy.act(&observation, &mut scratch).map(|(action, _)| action as usize);
        assert!(action.is_ok_and(|action| action < policy.spec().actions.len()));
    }
});
