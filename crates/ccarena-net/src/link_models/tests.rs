//! Tests of the link models.

use super::*;

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = values.fold((0.0, 0), |(sum, count), value| (sum + value, count + 1));
    sum / f64::from(count)
}

#[test]
fn same_seed_same_rows_and_longer_begins_alike() {
    for model in MODELS {
        let short = model.draw(Dur::from_millis(20_000), 5, None);
        assert_eq!(short, model.draw(Dur::from_millis(20_000), 5, None), "{}", model.name);
        assert_eq!(short, model.draw(Dur::from_millis(40_000), 5, None)[..short.len()], "{}", model.name);
        assert_ne!(short, model.draw(Dur::from_millis(20_000), 6, None), "{}", model.name);
    }
}

#[test]
fn rows_are_conditions() {
    for model in MODELS {
        for seed in 0..5 {
            let rows = model.draw(Dur::from_millis(60_000), seed, None);
            assert_eq!(rows.len(), 60_000 / model.tick_ms as usize);
            let base_ms = model.base_delay(seed).as_millis_f64() - 1e-6;
            for (k, row) in rows.iter().enumerate() {
                assert_eq!(row.time_ms, k as u32 * model.tick_ms);
                assert!((0.0..=model.cap_mbps).contains(&row.rate_mbps), "{}: {row:?}", model.name);
                assert!((base_ms..500.0).contains(&row.delay_ms), "{}: {row:?}", model.name);
                assert!((0.0..0.5).contains(&row.loss), "{}: {row:?}", model.name);
            }
        }
    }
}

#[test]
fn parameters_are_whole() {
    for model in MODELS {
        let shares: f64 = model.memory.iter().map(|(share, _)| share).sum();
        assert!(shares <= 1.0 + 1e-9 && (model.reallocation.is_some() || shares > 1.0 - 1e-9), "{}", model.name);
        for state in model.states {
            assert_eq!(state.next.len(), model.states.len(), "{}", model.name);
            assert!(state.next.iter().sum::<f64>() > 0.0, "{}", model.name);
        }
        assert!((model.shares().iter().sum::<f64>() - 1.0).abs() < 1e-9, "{}", model.name);
    }
    let names = names();
    let mut distinct = names.clone();
    distinct.sort_unstable();
    distinct.dedup();
    assert_eq!(distinct.len(), names.len());
}

#[test]
fn states_are_entered_as_often_as_their_shares_say() {
    let model = find("starlink-roam").unwrap();
    let rows = (0..40).flat_map(|seed| model.draw(Dur::from_millis(600_000), seed, None));
    let out = mean(rows.map(|row| f64::from(u8::from(row.rate_mbps == 0.0))));
    assert!((out / model.shares()[1] - 1.0).abs() < 0.25, "{out} {:?}", model.shares());
}

#[test]
fn starlink_changes_at_reallocations() {
    let model = find("starlink").unwrap();
    let (mut inside, mut across) = (Vec::new(), Vec::new());
    for seed in 0..20 {
        let rows = model.draw(Dur::from_millis(300_000), seed, None);
        let lossy: Vec<usize> = (0..rows.len()).filter(|&k| rows[k].loss > 0.002).collect();
        assert!(lossy.len() >= 15, "{} lossy ticks", lossy.len());
        let first = lossy[0] % 150;
        let delay = |k: usize| mean(rows[k + 10..k + 140].iter().map(|row| row.delay_ms));
        let halves = |k: usize| mean(rows[k + 10..k + 75].iter().map(|row| row.delay_ms)) - delay(k);
        for k in (first..rows.len() - 300).step_by(150) {
            across.push((delay(k + 150) - delay(k)).abs());
            inside.push(halves(k).abs());
        }
    }
    assert!(mean(across.iter().copied()) > 10.0 * mean(inside.iter().copied()));
}

#[test]
fn mean_can_be_chosen() {
    for model in MODELS {
        let traces = |wanted| (0..40).flat_map(move |seed| model.draw(Dur::from_millis(60_000), seed, wanted));
        let own = mean(traces(None).map(|row| row.rate_mbps));
        let half = mean(traces(Some(model.mean_mbps() / 2.0)).map(|row| row.rate_mbps));
        assert!((half / own - 0.5).abs() < 1e-3, "{}: {own} {half}", model.name);
        assert!((own / model.mean_mbps() - 1.0).abs() < 0.3, "{}: {own} {}", model.name, model.mean_mbps());
    }
}

#[test]
fn unknown_models_are_refused_with_the_nearest() {
    assert_eq!(find("starlnk").unwrap_err().to_string(), "unknown link model \"starlnk\"; did you mean \"starlink\"?");
    assert!(find("x").unwrap_err().to_string().contains("expected one of starlink, "));
}
