//! Lists for people and programs: everything that a scenario can name, with its parameters, as JSON.
//!
//! Python's `_core` and the web page take their lists from here.

use ccarena_cc::{Param, registry};
use serde_json::{Value, json};

use crate::apps::App;
use crate::queues::LimitRule;
use crate::service::access;
use crate::{cellular, link_models, queues, routers};

/// Parameters as their documentation lists them.
#[must_use]
pub fn params(params: &[Param]) -> Value {
    params
        .iter()
        .map(|p| json!({"name": p.name, "default": p.default, "min": p.min, "max": p.max, "doc": p.doc}))
        .collect()
}

/// Every congestion control.
pub fn schemes() -> impl Iterator<Item = Value> {
    registry::schemes().iter().map(|s| {
        json!({
            "name": s.name, "summary": s.summary, "learned": s.learned, "rules": s.rules, "weight_above": s.weight_above,
            "requirement": s.requirement, "alias_of": s.alias_of,
            "assisted": routers::all().map(|r| r.name).find(|name| *name == s.name),
            "params": params(s.params),
        })
    })
}

/// Every queue discipline. Its limit is "required", a default by its unit, or null if it has none.
pub fn queue_disciplines() -> impl Iterator<Item = Value> {
    queues::all().map(|d| {
        let limit = match d.limit {
            LimitRule::Unlimited => Value::Null,
            LimitRule::Required => json!("required"),
            LimitRule::Default(limit) => {
                let (param, amount) = limit.param();
                json!({param.name: amount})
            }
        };
        json!({"name": d.name, "summary": d.summary, "limit": limit, "params": params(d.params), "mahimahi": d.mahimahi})
    })
}

/// Every kind of router.
pub fn routers() -> impl Iterator<Item = Value> {
    routers::all().map(
        |r| json!({"name": r.name, "summary": r.summary, "params": params(r.params), "on_the_wire": r.on_the_wire}),
    )
}

/// Every kind of access to a medium that a link's `service` can have.
pub fn accesses() -> impl Iterator<Item = Value> {
    access::all().map(|a| json!({"name": a.name, "summary": a.summary, "params": params(a.params)}))
}

/// Everything together, by kind, for a program that offers it.
#[must_use]
pub fn all() -> Value {
    let applications = App::all().map(|(name, fields)| json!({"name": name, "fields": fields}));
    json!({
        "schemes": schemes().collect::<Value>(),
        "queues": queue_disciplines().collect::<Value>(),
        "routers": routers().collect::<Value>(),
        "accesses": accesses().collect::<Value>(),
        "applications": applications.collect::<Value>(),
        "cellular": cellular::PRESETS.iter().map(cellular::Preset::to_json).collect::<Value>(),
        "models": link_models::MODELS.iter().map(link_models::LinkModel::to_json).collect::<Value>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_that_a_scenario_names_is_there() {
        let all = all();
        let names = |kind: &str| -> Vec<&str> {
            all[kind].as_array().map_or(vec![], |list| list.iter().filter_map(|entry| entry["name"].as_str()).collect())
        };
        assert!(names("schemes").contains(&"cubic") && names("queues").contains(&"fq_codel"));
        assert_eq!(names("applications").first(), Some(&"bulk"));
        assert!(names("applications").contains(&"poisson") && names("cellular").contains(&"lte-driving"));
        assert!(!names("models").is_empty() && !names("accesses").is_empty() && !names("routers").is_empty());
    }
}
