//! A policy artifact is refused with an error, or acts, and what it remembers stays finite; in integers nothing overflows.
#![no_main]

use ccarena_cc::policy::Policy;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(policy) = Policy::from_bytes(bytes) {
        let observation = vec![1.0; policy.trained().observation_len];
        let mut scratch = policy.scratch();
        for _ in 0..2 {
            if let Ok((action, outputs)) = policy.act(&observation, &mut scratch) {
                assert!((action as usize) < policy.outputs() && outputs.iter().all(|x| x.is_finite()));
            }
            assert!(scratch.state().iter().all(|x| x.is_finite()));
        }
        if let Ok(program) = policy.integer() {
            let mut memory = program.memory();
            for _ in 0..2 {
                let (action, _) = program.act(&observation, &mut memory).expect("the observation is finite");
                assert!((action as usize) < policy.outputs());
            }
        }
    }
});
